#include "targets/Rknn/Toolkit.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"

namespace tessera::rknn {

namespace {

using llvm::support::endian::read32le;
using llvm::support::endian::read64le;

// Offsets of FORMAT.md.
constexpr uint8_t magic[4] = {'T', 'S', 'R', 'K'};
constexpr uint32_t layout = 1;
constexpr size_t sizeAt = 8, textAt = 16, textBytes = 64,
                 partsAt = textAt + 2 * textBytes, headBytes = partsAt + 4 * 8;
constexpr size_t alignment = 16; // of each part

llvm::Error fault(const llvm::Twine &what) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 "RKNN segment: " + what);
}

} // namespace

std::vector<uint8_t> writeArtefact(const std::string &platform,
                                   const Blob &blob,
                                   llvm::ArrayRef<uint8_t> tosa) {
  std::vector<uint8_t> bytes(magic, magic + 4);
  auto number = [&](uint64_t v, unsigned size) {
    for (unsigned i = 0; i < size; ++i)
      bytes.push_back(uint8_t(v >> (8 * i)));
  };
  size_t blobAt = llvm::alignTo(headBytes, alignment),
         tosaAt = llvm::alignTo(blobAt + blob.bytes.size(), alignment);
  number(layout, 4);
  number(tosaAt + tosa.size(), 8);
  for (const std::string &t : {platform, blob.toolkit}) {
    assert(t.size() < textBytes && "the words are short");
    bytes.insert(bytes.end(), t.begin(), t.end());
    bytes.resize(bytes.size() + textBytes - t.size());
  }
  for (uint64_t v : {blobAt, blob.bytes.size(), tosaAt, tosa.size()})
    number(v, 8);
  bytes.resize(blobAt);
  bytes.insert(bytes.end(), blob.bytes.begin(), blob.bytes.end());
  bytes.resize(tosaAt);
  bytes.insert(bytes.end(), tosa.begin(), tosa.end());
  return bytes;
}

bool isArtefact(llvm::ArrayRef<uint8_t> bytes) {
  return bytes.size() >= sizeof magic &&
         std::equal(magic, magic + sizeof magic, bytes.begin());
}

llvm::Expected<Artefact> readArtefact(llvm::ArrayRef<uint8_t> bytes) {
  if (!isArtefact(bytes) || bytes.size() < headBytes)
    return fault("head of " + llvm::Twine(bytes.size()) + " bytes, " +
                 llvm::Twine(headBytes) + " needed");
  if (uint32_t found = read32le(bytes.data() + 4); found != layout)
    return fault("layout " + llvm::Twine(found) + ", known is " +
                 llvm::Twine(layout));
  if (uint64_t size = read64le(bytes.data() + sizeAt); size > bytes.size())
    return fault("size " + llvm::Twine(size) + ", there are " +
                 llvm::Twine(bytes.size()) + " bytes");
  Artefact a;
  for (int i = 0; i < 2; ++i) {
    auto text = llvm::StringRef(reinterpret_cast<const char *>(bytes.data()) +
                                    textAt + i * textBytes,
                                textBytes);
    if (!text.contains('\0'))
      return fault("text " + llvm::Twine(i) + " has no end");
    (i ? a.toolkit : a.platform) = text.substr(0, text.find('\0')).str();
  }
  for (int i = 0; i < 2; ++i) {
    uint64_t at = read64le(bytes.data() + partsAt + 16 * i),
             size = read64le(bytes.data() + partsAt + 16 * i + 8);
    if (at > bytes.size() || size > bytes.size() - at)
      return fault("part " + llvm::Twine(i) + " at " + llvm::Twine(at) +
                   " of " + llvm::Twine(size) + " bytes, there are " +
                   llvm::Twine(bytes.size()));
    (i ? a.tosa : a.blob) = bytes.slice(at, size);
  }
  return a;
}

} // namespace tessera::rknn
