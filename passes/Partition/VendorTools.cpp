#include "passes/Partition/VendorTools.h"
#include "targets/EthosU/Artefact.h"

#include <cmath>

namespace tessera {

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
