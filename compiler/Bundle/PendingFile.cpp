#include "compiler/Bundle/PendingFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Signals.h"

namespace tessera {

llvm::Expected<std::unique_ptr<PendingFile>> PendingFile::create(llvm::StringRef path) {
  auto file = std::make_unique<PendingFile>();
  file->path = path.str();
  if (auto ec = llvm::sys::fs::createUniqueFile(path + ".%%%%%%.tmp", file->fd, file->temporary, llvm::sys::fs::OF_None,
                                                llvm::sys::fs::all_read | llvm::sys::fs::all_write))
    return llvm::createStringError(ec, "cannot write beside '%s': %s", file->path.c_str(), ec.message().c_str());
  llvm::sys::RemoveFileOnSignal(file->temporary);
  file->os = std::make_unique<llvm::raw_fd_ostream>(file->fd, /*shouldClose=*/true);
  return file;
}

PendingFile::~PendingFile() {
  if (temporary.empty())
    return;
  if (os) {
    os->close();
    os->clear_error();
  }
  llvm::sys::fs::remove(temporary);
  llvm::sys::DontRemoveFileOnSignal(temporary);
}

std::error_code PendingFile::resize(uint64_t bytes) { return llvm::sys::fs::resize_file(fd, bytes); }

llvm::Error PendingFile::finish() {
  if (!os)
    return llvm::Error::success();
  os->close();
  std::error_code ec = os->error();
  os->clear_error();
  os.reset();
  if (ec)
    return llvm::createStringError(ec, "cannot write '%s': %s", path.c_str(), ec.message().c_str());
  return llvm::Error::success();
}

llvm::Error PendingFile::commit() {
  if (auto error = finish())
    return error;
  if (auto ec = llvm::sys::fs::rename(temporary, path))
    return llvm::createStringError(ec, "cannot rename onto '%s': %s", path.c_str(), ec.message().c_str());
  llvm::sys::DontRemoveFileOnSignal(temporary);
  temporary.clear();
  return llvm::Error::success();
}

void PendingFile::retract() { llvm::sys::fs::remove(path); }

} // namespace tessera
