#include "targets/Vulkan/Words.h"
#include "llvm/ADT/DenseSet.h"

#include <algorithm>

namespace tessera::vulkan {

namespace {
constexpr uint32_t headerWords = 5, version13 = 0x00010300;
constexpr uint32_t opEntryPoint = 15, opVariable = 59;
constexpr uint32_t classInput = 1, classOutput = 3;
} // namespace

/// Words of an entry point before its interface: opcode, model, function, name.
static size_t interfaceStart(const uint32_t *op, size_t length) {
  for (size_t i = 3; i < length; ++i)
    for (unsigned byte = 0; byte < 4; ++byte)
      if (!(op[i] >> (8 * byte) & 0xff))
        return i + 1;
  return length;
}

void makeVersion13(std::vector<uint32_t> &words) {
  if (words.size() <= headerWords || words[1] == version13)
    return;
  llvm::DenseSet<uint32_t> keep;
  for (size_t i = headerWords; i < words.size();
       i += std::max(1u, words[i] >> 16))
    if ((words[i] & 0xffff) == opVariable &&
        (words[i + 3] == classInput || words[i + 3] == classOutput))
      keep.insert(words[i + 2]);
  std::vector<uint32_t> out(words.begin(), words.begin() + headerWords);
  out[1] = version13;
  for (size_t i = headerWords; i < words.size();) {
    size_t length = std::max(1u, words[i] >> 16), start = out.size();
    const uint32_t *op = words.data() + i;
    bool entry = (*op & 0xffff) == opEntryPoint;
    size_t fixed = entry ? interfaceStart(op, length) : length;
    out.insert(out.end(), op, op + fixed);
    for (size_t j = fixed; j < length; ++j)
      if (keep.contains(op[j]))
        out.push_back(op[j]);
    if (entry)
      out[start] =
          static_cast<uint32_t>(out.size() - start) << 16 | opEntryPoint;
    i += length;
  }
  words = std::move(out);
}

} // namespace tessera::vulkan
