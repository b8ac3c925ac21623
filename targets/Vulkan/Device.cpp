#include "targets/Vulkan/Device.h"
#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace tessera::vulkan {

static constexpr StringRef names[] = {
#define TESSERA_FEATURE(id, word, text) word,
#include "targets/Vulkan/Features.def"
#undef TESSERA_FEATURE
};

StringRef featureName(Feature feature) {
  return names[static_cast<unsigned>(feature)];
}

std::optional<Feature> parseFeature(StringRef word) {
  for (unsigned i = 0; i < std::size(names); ++i)
    if (names[i] == word)
      return static_cast<Feature>(i);
  return std::nullopt;
}

std::optional<std::string> Device::addFeatures(StringRef words) {
  SmallVector<StringRef> parts;
  words.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef word : parts) {
    std::optional<Feature> f = parseFeature(word);
    if (!f)
      return word.str();
    add(*f);
  }
  return std::nullopt;
}

} // namespace tessera::vulkan
