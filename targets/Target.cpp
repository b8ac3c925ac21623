#include "targets/Target.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLTraits.h"
#include "targets/Cpu/Isa.h"

using namespace llvm;

namespace {
struct CpuSection {
  std::vector<std::string> variants;
};
struct TargetYaml {
  std::string name, summary;
  CpuSection cpu;
};
} // namespace

template <> struct yaml::MappingTraits<CpuSection> {
  static void mapping(IO &io, CpuSection &c) { io.mapRequired("variants", c.variants); }
};
template <> struct yaml::MappingTraits<TargetYaml> {
  static void mapping(IO &io, TargetYaml &d) {
    io.mapRequired("name", d.name);
    io.mapOptional("summary", d.summary);
    io.mapRequired("cpu", d.cpu);
  }
};

namespace tessera {

// Written by CMake from targets/descriptions/*.yaml.
extern const char *const builtinTargetTexts[];
extern const unsigned builtinTargetCount;

Expected<TargetDescription> parseTarget(StringRef text, StringRef origin) {
  std::string messages;
  auto collect = [](const SMDiagnostic &d, void *out) {
    raw_string_ostream os(*static_cast<std::string *>(out));
    d.print(nullptr, os, /*ShowColors=*/false);
  };
  yaml::Input input(MemoryBufferRef(text, origin), nullptr, collect, &messages);
  TargetYaml d;
  input >> d;
  auto refuse = [&](const Twine &why) {
    return createStringError(std::errc::invalid_argument, "target description %s: %s", origin.str().c_str(),
                             why.str().c_str());
  };
  if (input.error())
    return refuse(StringRef(messages).trim());
  if (d.name.empty())
    return refuse("name is empty");
  if (d.cpu.variants.empty())
    return refuse("cpu.variants is empty; at least one ISA variant is needed");
  const cpu::Isa *first = nullptr;
  for (const std::string &v : d.cpu.variants) {
    const cpu::Isa *isa = cpu::findIsa(v);
    if (!isa) {
      std::string known;
      for (const cpu::Isa &i : cpu::allIsas())
        known += (known.empty() ? "" : ", ") + i.name.str();
      return refuse("cpu variant '" + v + "' is unknown; known are " + known);
    }
    if (first && first->arch != isa->arch)
      return refuse("cpu variants '" + first->name + "' and '" + v + "' are of different architectures");
    first = isa;
  }
  TargetDescription t;
  t.name = d.name;
  t.summary = d.summary;
  t.cpuVariants = d.cpu.variants;
  t.text = text.str();
  return t;
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
    return createStringError(std::errc::invalid_argument, "target '%s' is unknown; built in are %s, or give a .yaml file",
                             nameOrPath.str().c_str(), known.c_str());
  }
  auto file = MemoryBuffer::getFile(nameOrPath, /*IsText=*/true);
  if (!file)
    return createStringError(file.getError(), "cannot read target description %s: %s", nameOrPath.str().c_str(),
                             file.getError().message().c_str());
  return parseTarget((*file)->getBuffer(), nameOrPath);
}

} // namespace tessera
