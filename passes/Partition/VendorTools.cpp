#include "passes/Partition/VendorTools.h"
#include "mlir/IR/MLIRContext.h"
#include "targets/EthosU/Artefact.h"
#include "targets/EthosU/Limits.h"
#include "targets/Tosa/Serialise.h"

#include <cmath>

namespace tessera {

/// What the hardware cannot do of the file, constants included, though its
/// compiler may take it; empty if it can.
static std::string hardwareFaults(const Unit &unit,
                                  llvm::ArrayRef<uint8_t> file) {
  auto accelerator = ethosu::findAccelerator(unit.accelerator);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = tosa::readTosa(file, &context);
  std::string all;
  if (accelerator && mlir::succeeded(module))
    (*module)->walk([&](mlir::Operation *op) {
      for (const std::string &fault : ethosu::violations(op, *accelerator))
        all += (all.empty() ? "" : "; ") + fault;
    });
  return all;
}

llvm::Expected<VendorTools::Answer>
VendorTools::compile(const Unit &unit, llvm::ArrayRef<uint8_t> tosa) {
  std::string key = unit.deviceKind() + '\0';
  key.append(tosa.begin(), tosa.end());
  if (auto it = made.find(key); it != made.end())
    return Answer{&it->second, ""};
  if (auto it = refused.find(key); it != refused.end())
    return Answer{nullptr, it->second};
  if (!brokenBy.empty())
    return Answer{nullptr, "the vendor's compiler is out of order"};
  if (std::string fault = hardwareFaults(unit, tosa); !fault.empty())
    return Answer{nullptr,
                  refused.emplace(std::move(key), fault).first->second};
  ethosu::VelaConfig config{unit.accelerator, unit.systemConfig,
                            unit.memoryMode};
  auto result = vela.compile(tosa, config);
  if (result) {
    VendorCode code{ethosu::writeArtefact(config, *result, tosa),
                    std::llround(std::ceil(result->nanoseconds()))};
    return Answer{&made.emplace(std::move(key), std::move(code)).first->second,
                  ""};
  }
  Answer answer;
  llvm::Error rest = llvm::handleErrors(
      result.takeError(),
      [&](std::unique_ptr<ethosu::VelaError> e) -> llvm::Error {
        if (e->kind != ethosu::VelaError::Kind::Refused && !fallback)
          return llvm::Error(std::move(e));
        answer.reason = e->message();
        if (e->kind == ethosu::VelaError::Kind::Broken)
          brokenBy = answer.reason;
        return llvm::Error::success();
      });
  if (rest)
    return std::move(rest);
  refused.emplace(std::move(key), answer.reason);
  return answer;
}

} // namespace tessera
