// The text form of `tessera inspect`, made from its JSON form.
#ifndef TESSERA_COMPILER_REPORT_INSPECTTEXT_H
#define TESSERA_COMPILER_REPORT_INSPECTTEXT_H

#include "llvm/ADT/StringRef.h"

#include <nlohmann/json.hpp>
#include <string>

namespace tessera {

std::string renderInspection(llvm::StringRef path,
                             const nlohmann::ordered_json &inspection);

} // namespace tessera
#endif
