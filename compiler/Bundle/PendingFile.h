// A file that appears under its name only when it is complete.
#ifndef TESSERA_COMPILER_BUNDLE_PENDINGFILE_H
#define TESSERA_COMPILER_BUNDLE_PENDINGFILE_H

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>

namespace tessera {

/// Written beside `path`; renamed onto it by commit(), else removed.
class PendingFile {
public:
  static llvm::Expected<std::unique_ptr<PendingFile>> create(llvm::StringRef path);
  ~PendingFile();
  std::error_code resize(uint64_t bytes);
  /// Writes out what is buffered; what can fail for want of room fails here.
  llvm::Error finish();
  llvm::Error commit();
  /// Removes the file again that commit() left under its name.
  void retract();

  std::unique_ptr<llvm::raw_fd_ostream> os;

private:
  std::string path;
  llvm::SmallString<128> temporary;
  int fd = -1;
};

} // namespace tessera
#endif
