// rknn-toolkit2, the vendor's compiler for Rockchip's NPUs, as a child process.
//
// It carries no licence, so the project neither contains nor installs it: where
// the user has done so, TESSERA_RKNN_PYTHON names the interpreter of its
// environment. Without, regions are planned by the target's description and no
// blob is made. It may hang, die or talk nonsense, as Vela may (Vela.h), and is
// held in the same way.
#ifndef TESSERA_TARGETS_RKNN_TOOLKIT_H
#define TESSERA_TARGETS_RKNN_TOOLKIT_H

#include "targets/VendorError.h"
#include "llvm/ADT/ArrayRef.h"

#include <memory>
#include <vector>

namespace tessera::rknn {

/// What it made of a region.
struct Blob {
  std::string toolkit;        ///< its version
  std::vector<uint8_t> bytes; ///< for the chip's own runtime
};

class Toolkit {
public:
  /// `seconds` for one region, and for the start.
  explicit Toolkit(unsigned seconds);
  ~Toolkit();
  Toolkit(const Toolkit &) = delete;

  /// Whether the user has named an interpreter.
  static bool isNamed();
  /// Compiles an ONNX file for a chip ("rk3588"). Refused too if it would leave
  /// an operator to the chip's CPU. Errors are VendorErrors.
  llvm::Expected<Blob> compile(llvm::ArrayRef<uint8_t> onnx,
                               const std::string &platform);

private:
  struct Child;
  llvm::Error start();
  unsigned seconds;
  std::unique_ptr<Child> child; ///< null before the start and after a death
};

/// The device segment in a bundle (FORMAT.md): the blob with what made it and
/// for which chip, and the TOSA file that a stand-in plays.
std::vector<uint8_t> writeArtefact(const std::string &platform,
                                   const Blob &blob,
                                   llvm::ArrayRef<uint8_t> tosa);

struct Artefact {
  std::string platform, toolkit;
  llvm::ArrayRef<uint8_t> blob, tosa; ///< inside of the bytes that were read
};
bool isArtefact(llvm::ArrayRef<uint8_t> bytes);
/// Trusts nothing. Fails with field, found, needed.
llvm::Expected<Artefact> readArtefact(llvm::ArrayRef<uint8_t> bytes);

} // namespace tessera::rknn
#endif
