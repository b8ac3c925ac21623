// A report as one HTML page that needs nothing else: no network, no other file.
#ifndef TESSERA_COMPILER_REPORT_PAGE_PAGE_H
#define TESSERA_COMPILER_REPORT_PAGE_PAGE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

namespace tessera {

/// `json`: a report of the audit or of a placement, in UTF-8; Model.js says what
/// the page reads of it. No text in it can end the element that holds it.
void printPage(llvm::StringRef title, llvm::StringRef json, llvm::raw_ostream &os);

} // namespace tessera
#endif
