#include "passes/Partition/VendorTools.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "targets/EthosU/Artefact.h"
#include "targets/EthosU/Limits.h"
#include "targets/Rknn/OnnxWriter.h"
#include "targets/Tosa/Segment.h"
#include "targets/Tosa/Serialise.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

namespace tessera {

/// What the hardware cannot do of the file, constants included, though its
/// compiler may take it; empty if it can.
static std::string hardwareFaults(const Unit &unit, mlir::ModuleOp module) {
  auto accelerator = ethosu::findAccelerator(unit.accelerator);
  assert(accelerator && "the parser of descriptions knows it");
  std::string all;
  module->walk([&](mlir::Operation *op) {
    for (const std::string &fault : ethosu::violations(op, *accelerator))
      all += (all.empty() ? "" : "; ") + fault;
  });
  return all;
}

/// A driver fills and reads by position, so Vela's inputs and outputs have to
/// be the file's: as many, as large, in that order. Says what is not; or
/// nothing.
static std::string borderFault(mlir::func::FuncOp main,
                               const ethosu::VelaResult &r) {
  auto differ = [](llvm::StringRef what, mlir::TypeRange types,
                   llvm::ArrayRef<ethosu::VelaTensor> tensors) -> std::string {
    if (types.size() != tensors.size())
      return llvm::formatv("Vela gives {0} {1}s, the file has {2}",
                           tensors.size(), what, types.size());
    for (auto [i, type, tensor] : llvm::enumerate(types, tensors)) {
      auto t = mlir::cast<mlir::RankedTensorType>(type);
      uint64_t bits = uint64_t(t.getNumElements()) *
                      std::max(8u, t.getElementTypeBitWidth());
      if (tensor.size * 8 != bits)
        return llvm::formatv("Vela gives {0} {1} {2} bytes, the file {3}", what,
                             i, tensor.size, bits / 8);
    }
    return "";
  };
  std::string fault = differ("input", main.getArgumentTypes(), r.inputs);
  return fault.empty() ? differ("output", main.getResultTypes(), r.outputs)
                       : fault;
}

llvm::Expected<VendorCode> VendorTools::byVela(const Unit &unit,
                                               llvm::ArrayRef<uint8_t> tosa) {
  using Kind = VendorError::Kind;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = tosa::readTosa(tosa, &context);
  if (mlir::failed(module))
    return llvm::make_error<VendorError>(Kind::Broken,
                                         "its TOSA file cannot be read back");
  if (std::string fault = hardwareFaults(unit, **module); !fault.empty())
    return llvm::make_error<VendorError>(Kind::Refused, fault);
  ethosu::VelaConfig config{unit.accelerator, unit.systemConfig,
                            unit.memoryMode};
  auto result = vela.compile(tosa, config);
  if (!result)
    return result.takeError();
  std::string fault =
      borderFault((*module)->lookupSymbol<mlir::func::FuncOp>("main"), *result);
  if (!fault.empty())
    return llvm::make_error<VendorError>(Kind::Broken, fault);
  return VendorCode{ethosu::writeArtefact(config, *result, tosa),
                    std::llround(std::ceil(result->nanoseconds()))};
}

llvm::Expected<VendorCode>
VendorTools::byRknn(const Unit &unit, llvm::ArrayRef<mlir::Operation *> ops,
                    llvm::ArrayRef<uint8_t> tosa) {
  auto onnx = rknn::writeOnnx(ops);
  if (!onnx)
    return llvm::make_error<VendorError>(VendorError::Kind::Refused,
                                         "no ONNX file for the RKNN toolkit: " +
                                             llvm::toString(onnx.takeError()));
  auto blob = rknn.compile(*onnx, unit.accelerator);
  if (!blob)
    return blob.takeError();
  return VendorCode{rknn::writeArtefact(unit.accelerator, *blob, tosa), 0};
}

llvm::Expected<VendorTools::Answer>
VendorTools::compile(const Unit &unit, llvm::ArrayRef<mlir::Operation *> ops,
                     llvm::ArrayRef<uint8_t> tosa) {
  std::string key = unit.deviceKind() + '\0';
  key.append(tosa.begin(), tosa.end());
  if (auto it = made.find(key); it != made.end())
    return Answer{&it->second, ""};
  if (auto it = refused.find(key); it != refused.end())
    return Answer{nullptr, it->second};
  if (!brokenBy.empty())
    return Answer{nullptr, "the vendor's compiler is out of order"};
  auto code =
      unit.backend == "rknn" ? byRknn(unit, ops, tosa) : byVela(unit, tosa);
  if (code)
    return Answer{&made.emplace(std::move(key), std::move(*code)).first->second,
                  ""};
  Answer answer;
  llvm::Error rest = llvm::handleErrors(
      code.takeError(), [&](std::unique_ptr<VendorError> e) -> llvm::Error {
        if (e->kind != VendorError::Kind::Refused && !fallback)
          return llvm::Error(std::move(e));
        answer.reason = e->message();
        if (e->kind == VendorError::Kind::Broken)
          brokenBy = answer.reason;
        return llvm::Error::success();
      });
  if (rest)
    return std::move(rest);
  refused.emplace(std::move(key), answer.reason);
  return answer;
}

llvm::Expected<std::string>
VendorTools::refusal(const Unit &unit, llvm::ArrayRef<mlir::Operation *> ops,
                     Precision precision) {
  tosa::Reasons reasons;
  auto segment = tosa::buildSegment(ops, precision, reasons);
  if (mlir::failed(segment))
    return llvm::join(reasons.all, "; ");
  auto answer = compile(unit, ops, segment->file);
  if (!answer)
    return answer.takeError();
  return answer->reason;
}

} // namespace tessera
