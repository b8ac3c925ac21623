#include "targets/Target.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace tessera {

// Written by CMake from targets/descriptions/*.yaml.
extern const char *const builtinTargetTexts[];
extern const unsigned builtinTargetCount;

StringRef builtinTargetText(StringRef name) {
  for (const char *text : ArrayRef(builtinTargetTexts, builtinTargetCount))
    if (StringRef(text).contains(("\nname: " + name + "\n").str()))
      return text;
  return "";
}

StringRef originName(Origin origin) {
  static constexpr const char *names[] = {"documented", "observed", "fitted", "assumed"};
  return names[static_cast<unsigned>(origin)];
}

StringRef precisionName(Precision precision) {
  static constexpr const char *names[] = {"f32", "f16", "int8", "int16"};
  return names[static_cast<unsigned>(precision)];
}

std::string Unit::deviceKind() const {
  if (backend == "rknn")
    return "rknn/" + accelerator;
  if (backend == "vulkan")
    return "vulkan";
  return backend == "ethos-u" ? accelerator + "/" + systemConfig + "/" + memoryMode : "";
}

bool Unit::supports(Precision p) const { return is_contained(precisions, p); }

const Link *TargetDescription::link(unsigned fromMemory, unsigned toMemory) const {
  auto it = find_if(links, [&](const Link &l) { return l.from == fromMemory && l.to == toMemory; });
  return it == links.end() ? nullptr : &*it;
}

std::optional<unsigned> TargetDescription::findUnit(StringRef unit) const {
  for (auto [i, u] : enumerate(units))
    if (u.name == unit)
      return i;
  return std::nullopt;
}

ArrayRef<TargetDescription> builtinTargets() {
  static const std::vector<TargetDescription> all = [] {
    std::vector<TargetDescription> list;
    for (unsigned i = 0; i < builtinTargetCount; ++i)
      list.push_back(cantFail(parseTarget(builtinTargetTexts[i], "built in")));
    llvm::sort(list, [](auto &a, auto &b) { return a.name < b.name; });
    return list;
  }();
  return all;
}

Expected<TargetDescription> findTarget(StringRef nameOrPath) {
  for (const TargetDescription &t : builtinTargets())
    if (t.name == nameOrPath)
      return t;
  if (!nameOrPath.contains('/') && !nameOrPath.ends_with(".yaml")) {
    std::string known;
    for (const TargetDescription &t : builtinTargets())
      known += (known.empty() ? "" : ", ") + t.name;
    return createStringError(std::errc::invalid_argument,
                             "target '%s' is unknown; built in are %s, or give a .yaml file", nameOrPath.str().c_str(),
                             known.c_str());
  }
  auto file = MemoryBuffer::getFile(nameOrPath, /*IsText=*/true);
  if (!file)
    return createStringError(file.getError(), "cannot read target description %s: %s", nameOrPath.str().c_str(),
                             file.getError().message().c_str());
  auto target = parseTarget((*file)->getBuffer(), nameOrPath);
  if (target)
    target->file = nameOrPath.str();
  return target;
}

} // namespace tessera
