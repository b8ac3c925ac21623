// Why a vendor's compiler, which runs as a child process, has no result.
#ifndef TESSERA_TARGETS_VENDORERROR_H
#define TESSERA_TARGETS_VENDORERROR_H

#include "llvm/Support/Error.h"

#include <string>

namespace tessera {

class VendorError : public llvm::ErrorInfo<VendorError> {
public:
  static char ID;
  /// Refused: by the compiler, which is well. Died: it or its host did, on this
  /// file. Broken: there is none, another version, or it talks nonsense.
  /// Missing: there is none, and none is needed.
  enum class Kind { Refused, Died, Broken, Missing };
  VendorError(Kind kind, std::string text)
      : kind(kind), text(std::move(text)) {}
  void log(llvm::raw_ostream &os) const override { os << text; }
  std::error_code convertToErrorCode() const override {
    return llvm::inconvertibleErrorCode();
  }
  const Kind kind;

private:
  std::string text;
};

} // namespace tessera
#endif
