#include "targets/EthosU/Artefact.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

namespace tessera::ethosu {

namespace {

using llvm::support::endian::read32le;
using llvm::support::endian::read64le;

// Offsets of FORMAT.md.
constexpr uint8_t magic[4] = {'T', 'S', 'E', 'U'};
constexpr uint32_t layout = 1;
constexpr size_t textAt = 16, textBytes = 64,
                 texts = 4; // accelerator, system, memory mode, Vela's version
constexpr size_t numbersAt = textAt + texts * textBytes;
constexpr size_t headBytes = numbersAt + 8 * 8 + 8 * 4;
constexpr size_t tensorBytes = 24;
constexpr size_t alignment = 16; // of each part

class Writer {
public:
  void number(uint64_t v, unsigned size) {
    for (unsigned i = 0; i < size; ++i)
      bytes.push_back(uint8_t(v >> (8 * i)));
  }
  void text(llvm::StringRef t) {
    assert(t.size() < textBytes && "the words of descriptions are short");
    bytes.insert(bytes.end(), t.begin(), t.end());
    bytes.resize(bytes.size() + textBytes - t.size());
  }
  void part(llvm::ArrayRef<uint8_t> t) {
    bytes.resize(llvm::alignTo(bytes.size(), alignment));
    bytes.insert(bytes.end(), t.begin(), t.end());
  }
  std::vector<uint8_t> bytes;
};

llvm::Error fault(const llvm::Twine &what) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 "Ethos-U segment: " + what);
}

} // namespace

std::vector<uint8_t> writeArtefact(const VelaConfig &config,
                                   const VelaResult &r,
                                   llvm::ArrayRef<uint8_t> tosa) {
  size_t tensors = r.inputs.size() + r.outputs.size();
  size_t commandsAt =
      llvm::alignTo(headBytes + tensors * tensorBytes, alignment);
  size_t weightsAt = llvm::alignTo(commandsAt + r.commands.size(), alignment);
  size_t tosaAt = llvm::alignTo(weightsAt + r.weights.size(), alignment);
  Writer w;
  w.bytes.assign(magic, magic + 4);
  w.number(layout, 4);
  w.number(tosaAt + tosa.size(), 8);
  for (llvm::StringRef t :
       {llvm::StringRef(config.accelerator),
        llvm::StringRef(config.systemConfig),
        llvm::StringRef(config.memoryMode), llvm::StringRef(velaVersion)})
    w.text(t);
  for (uint64_t v :
       {uint64_t(commandsAt), uint64_t(r.commands.size()), uint64_t(weightsAt),
        uint64_t(r.weights.size()), uint64_t(tosaAt), uint64_t(tosa.size()),
        r.scratch, r.scratchFast})
    w.number(v, 8);
  for (uint32_t v :
       {r.weightsRegion, r.scratchRegion, r.scratchFastRegion,
        uint32_t(r.inputs.size()), uint32_t(r.outputs.size()), 0u, 0u, 0u})
    w.number(v, 4);
  for (const auto *list : {&r.inputs, &r.outputs})
    for (const VelaTensor &t : *list) {
      w.number(t.address, 8);
      w.number(t.size, 8);
      w.number(t.region, 4);
      w.number(t.elementSize, 4);
    }
  w.part(r.commands);
  w.part(r.weights);
  w.part(tosa);
  return std::move(w.bytes);
}

bool isArtefact(llvm::ArrayRef<uint8_t> bytes) {
  return bytes.size() >= 4 && std::equal(magic, magic + 4, bytes.begin());
}

llvm::Expected<Artefact> readArtefact(llvm::ArrayRef<uint8_t> bytes) {
  if (!isArtefact(bytes))
    return fault("does not begin with TSEU");
  if (bytes.size() < headBytes)
    return fault(llvm::formatv("{0} bytes, its head alone has {1}",
                               bytes.size(), headBytes));
  if (uint32_t found = read32le(&bytes[4]); found != layout)
    return fault(llvm::formatv("layout {0}, {1} is known", found, layout));
  if (uint64_t found = read64le(&bytes[8]); found != bytes.size())
    return fault(llvm::formatv("says {0} bytes, has {1}", found, bytes.size()));
  std::string words[texts];
  for (size_t i = 0; i < texts; ++i) {
    const uint8_t *at = &bytes[textAt + i * textBytes],
                  *end = std::find(at, at + textBytes, 0);
    if (end == at + textBytes)
      return fault(llvm::formatv("text {0} has no end", i));
    words[i].assign(at, end);
  }
  Artefact a;
  a.config = {words[0], words[1], words[2]};
  a.velaVersion = words[3];
  auto number = [&](size_t i) { return read64le(&bytes[numbersAt + 8 * i]); };
  auto small = [&](size_t i) {
    return read32le(&bytes[numbersAt + 64 + 4 * i]);
  };
  llvm::ArrayRef<uint8_t> *parts[] = {&a.commands, &a.weights, &a.tosa};
  for (size_t i = 0; i < 3; ++i) {
    uint64_t at = number(2 * i), size = number(2 * i + 1);
    if (at % alignment || at > bytes.size() || size > bytes.size() - at)
      return fault(llvm::formatv(
          "part {0} at {1} of {2} bytes leaves it, or is not aligned", i, at,
          size));
    *parts[i] = bytes.slice(at, size);
  }
  a.scratch = number(6);
  a.scratchFast = number(7);
  a.weightsRegion = small(0);
  a.scratchRegion = small(1);
  a.scratchFastRegion = small(2);
  uint64_t inputs = small(3), tensors = inputs + small(4);
  if (tensors > (bytes.size() - headBytes) / tensorBytes)
    return fault(llvm::formatv("{0} inputs and outputs leave it", tensors));
  for (uint64_t i = 0; i < tensors; ++i) {
    const uint8_t *at = &bytes[headBytes + i * tensorBytes];
    VelaTensor t{read64le(at), read64le(at + 8), read32le(at + 16),
                 read32le(at + 20)};
    uint64_t room = t.region == a.scratchRegion       ? a.scratch
                    : t.region == a.scratchFastRegion ? a.scratchFast
                                                      : 0;
    if (t.address > room || t.size > room - t.address)
      return fault(llvm::formatv(
          "tensor {0} at {1} of {2} bytes leaves its region {3} of {4}", i,
          t.address, t.size, t.region, room));
    (i < inputs ? a.inputs : a.outputs).push_back(t);
  }
  return a;
}

} // namespace tessera::ethosu
