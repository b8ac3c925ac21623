// YAML to TargetDescription. Every fault is reported with its position; a
// description with any fault is refused whole. README.md is the schema in
// words.
#include "onnx/defs/schema.h"
#include "targets/Cpu/Isa.h"
#include "targets/EthosU/Accelerator.h"
#include "targets/Target.h"
#include "targets/YamlTree.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace llvm;

namespace tessera {

namespace {

/// Unit and open or closed range of a number at one place of the schema.
struct NumberRule {
  const char *unit;
  double min, max; ///< inclusive
};
constexpr double tiny = 1e-9;
constexpr NumberRule ratio{"ratio", tiny, 1}, gigabytesPerSecond{"GB/s", tiny, 1e6}, gigamacs{"GMAC/s", tiny, 1e9},
    gigaElements{"Gelem/s", tiny, 1e9}, microseconds{"us", 0, 1e9}, mebibytes{"MiB", tiny, 1e9},
    kibibytes{"KiB", 0, 1e9}, channels{"channels", 1, 4096},
    // What Vulkan 1.1 has everywhere, and what no kernel can use more of.
    invocations{"invocations", 128, 4096}, sharedKibibytes{"KiB", 16, 1024}, rangeMebibytes{"MiB", 128, 4096};

enum class Argument { None, Attribute, Operand, OperandOrAll, OperandAxis };
struct SubjectInfo {
  Subject subject;
  StringRef word;
  Argument argument;
  StringRef unit;
  bool words() const { return unit.starts_with("Words"); } ///< takes one_of words, else numbers
};
const SubjectInfo subjects[] = {
#define TESSERA_SUBJECT(id, word, argument, unit, text) {Subject::id, word, Argument::argument, unit},
#include "targets/Subjects.def"
#undef TESSERA_SUBJECT
};

class DescriptionParser {
public:
  explicit DescriptionParser(StringRef origin) : faults(origin) {}
  Expected<TargetDescription> run(StringRef text);

private:
  yaml::Node completed(yaml::Node root);
  void readTop(const yaml::Node &root);
  void readVariants(const yaml::Node &cpu);
  void readMemory(const yaml::Node &node);
  void readLink(const yaml::Node &node);
  void readUnit(const yaml::Node &node);
  void readEthosU(yaml::MappingReader &m, Unit &unit);
  void checkEthosU(yaml::MappingReader &m, const Unit &unit);
  void readVulkan(yaml::MappingReader &m, Unit &unit);
  void readUnitFields(yaml::MappingReader &m, Unit &unit, yaml::Position at);
  void readParams(const yaml::Node &node);
  void readCosts(const yaml::Node &node, Unit &unit, StringRef precision, yaml::Position at);
  void readOps(const yaml::Node &node);
  void readUnitRules(const yaml::Node &node, Unit &unit);
  OpRule readRule(const yaml::Node &node, const Unit &unit);
  void readRuleOps(yaml::MappingReader &m, OpRule &rule, const Unit &unit);
  void readDtypes(const yaml::Node &node, OpRule &rule);
  Constraint readConstraint(const yaml::Node &node, const OpRule &rule);
  void checkWord(const yaml::Node &item, const SubjectInfo &info);
  void readLimits(yaml::MappingReader &m, const SubjectInfo &info, Constraint &c);
  void checkArgument(const SubjectInfo &info, const Constraint &c, const OpRule &rule, yaml::Position at);
  void readProvenance(yaml::MappingReader &m, Origin &origin, std::string &source, bool required);

  std::optional<double> number(const yaml::Node &node, const Twine &what);
  Quantity quantity(yaml::MappingReader &m, StringRef key, const NumberRule &rule, bool required = true);
  std::optional<Precision> precision(StringRef word, yaml::Position at);
  std::optional<unsigned> memory(StringRef name, yaml::Position at);
  std::string name(yaml::MappingReader &m, ArrayRef<std::string> taken, StringRef what);
  void finish();

  yaml::Faults faults;
  TargetDescription t;
};

std::optional<double> DescriptionParser::number(const yaml::Node &node, const Twine &what) {
  double value = 0;
  if (node.kind == yaml::Node::Scalar && !StringRef(node.text).getAsDouble(value) && std::isfinite(value))
    return value;
  faults.add(node.at, what + " is a number, not " +
                          (node.kind == yaml::Node::Scalar ? "'" + node.text + "'" : yaml::kindName(node.kind).str()));
  return std::nullopt;
}

void DescriptionParser::readProvenance(yaml::MappingReader &m, Origin &origin, std::string &source, bool required) {
  const yaml::Node *o = m.optional("origin");
  if (!o && required)
    faults.add(m.at(), "number without origin; say documented, observed, fitted or assumed");
  if (o) {
    auto found = StringSwitch<std::optional<Origin>>(o->text)
                     .Case("documented", Origin::Documented)
                     .Case("observed", Origin::Observed)
                     .Case("fitted", Origin::Fitted)
                     .Case("assumed", Origin::Assumed)
                     .Default(std::nullopt);
    if (found)
      origin = *found;
    else
      faults.add(o->at, "origin '" + o->text + "' is none of documented, observed, fitted, assumed");
  }
  std::string text = m.text("source", required);
  if (!text.empty())
    source = text;
}

Quantity DescriptionParser::quantity(yaml::MappingReader &m, StringRef key, const NumberRule &rule, bool required) {
  Quantity q;
  q.unit = rule.unit;
  const yaml::Node *node = required ? m.required(key) : m.optional(key);
  if (!node)
    return q;
  if (node->kind == yaml::Node::Scalar) {
    faults.add(node->at, "'" + key +
                             "' is a bare number; give {value, unit, origin, "
                             "source} with unit " +
                             rule.unit);
    return q;
  }
  yaml::MappingReader fields(*node, ("number '" + key + "'").str(), faults);
  if (const yaml::Node *value = fields.required("value"))
    if (auto v = number(*value, "value of '" + key + "'")) {
      q.value = *v;
      if (*v < rule.min || *v > rule.max)
        faults.add(value->at, formatv("'{0}' of {1} {2} is out of range; allowed is {3} to {4}", key, value->text,
                                      rule.unit, rule.min, rule.max)
                                  .str());
    }
  if (const yaml::Node *unit = fields.optional("unit")) {
    if (unit->text != rule.unit)
      faults.add(unit->at, "unit of '" + key + "' is '" + unit->text + "', needed is '" + rule.unit + "'");
  } else if (node->kind == yaml::Node::Mapping) {
    faults.add(node->at, "number '" + key + "' lacks its unit, '" + rule.unit + "'");
  }
  readProvenance(fields, q.origin, q.source,
                 /*required=*/node->kind == yaml::Node::Mapping);
  return q;
}

std::optional<Precision> DescriptionParser::precision(StringRef word, yaml::Position at) {
  for (Precision p : allPrecisions)
    if (precisionName(p) == word)
      return p;
  faults.add(at, "precision '" + word + "' is none of f32, f16, int8, int16");
  return std::nullopt;
}

std::optional<unsigned> DescriptionParser::memory(StringRef name, yaml::Position at) {
  std::string known;
  for (auto [i, m] : enumerate(t.memories)) {
    if (m.name == name)
      return i;
    known += (known.empty() ? "" : ", ") + m.name;
  }
  if (!name.empty())
    faults.add(at, "memory '" + name + "' is not described; known are " + known);
  return std::nullopt;
}

std::string DescriptionParser::name(yaml::MappingReader &m, ArrayRef<std::string> taken, StringRef what) {
  std::string n = m.text("name");
  const yaml::Node *node = m.optional("name");
  if (!n.empty() && is_contained(taken, n))
    faults.add(node->at, what + " '" + n + "' is described twice");
  auto good = [](char c) { return isAlnum(c) || c == '-' || c == '_' || c == '.'; };
  if (!all_of(n, good))
    faults.add(node->at, "name '" + n + "' has characters other than letters, digits, '-', '_', '.'");
  return n;
}

void DescriptionParser::readVariants(const yaml::Node &cpu) {
  yaml::MappingReader m(cpu, "cpu", faults);
  std::vector<yaml::Node> items = m.items("variants", /*isRequired=*/true);
  const yaml::Node *list = m.optional("variants");
  if (list && items.empty())
    faults.add(list->at, "cpu.variants is empty; at least one ISA variant is needed");
  const cpu::Isa *first = nullptr;
  for (const yaml::Node &item : items) {
    const cpu::Isa *isa = cpu::findIsa(item.text);
    if (!isa) {
      std::string known;
      for (const cpu::Isa &i : cpu::allIsas())
        known += (known.empty() ? "" : ", ") + i.name.str();
      faults.add(item.at, "cpu variant '" + item.text + "' is unknown; known are " + known);
      continue;
    }
    if (first && first->arch != isa->arch)
      faults.add(item.at, "cpu variants '" + first->name + "' and '" + isa->name + "' are of different architectures");
    first = isa;
    t.cpuVariants.push_back(item.text);
  }
}

void DescriptionParser::readMemory(const yaml::Node &node) {
  yaml::MappingReader m(node, "memory", faults);
  std::vector<std::string> taken;
  for (const Memory &other : t.memories)
    taken.push_back(other.name);
  Memory memory;
  memory.name = name(m, taken, "memory");
  memory.size = quantity(m, "size", mebibytes);
  memory.bandwidth = quantity(m, "bandwidth", gigabytesPerSecond);
  t.memories.push_back(std::move(memory));
}

void DescriptionParser::readLink(const yaml::Node &node) {
  yaml::MappingReader m(node, "link", faults);
  Link link;
  std::string from = m.text("from"), to = m.text("to");
  auto a = memory(from, node.at), b = memory(to, node.at);
  if (a && b && *a == *b)
    faults.add(node.at, "link from memory '" + from + "' to itself");
  if (a && b && t.link(*a, *b))
    faults.add(node.at, "link from '" + from + "' to '" + to + "' is described twice");
  link.from = a.value_or(0);
  link.to = b.value_or(0);
  std::string zeroCopy = m.text("zero_copy", /*isRequired=*/false);
  if (!zeroCopy.empty() && zeroCopy != "true" && zeroCopy != "false")
    faults.add(m.optional("zero_copy")->at, "zero_copy is true or false, not '" + zeroCopy + "'");
  link.zeroCopy = zeroCopy == "true";
  link.fixed = quantity(m, "fixed", microseconds);
  if (link.zeroCopy && m.optional("bandwidth"))
    faults.add(m.optional("bandwidth")->at, "a zero-copy link has no bandwidth: its buffers are shared");
  link.bandwidth = quantity(m, "bandwidth", gigabytesPerSecond, /*required=*/!link.zeroCopy);
  link.maintenance = quantity(m, "maintenance", gigabytesPerSecond, /*required=*/false);
  // 1 GB/s is 1000 ps a byte.
  auto picoseconds = [](const Quantity &q) { return q.value > 0 ? 1000 / q.value : 0; };
  link.fixedNs = std::llround(link.fixed.value * 1000);
  link.psPerByte = std::llround(picoseconds(link.bandwidth) + picoseconds(link.maintenance));
  t.links.push_back(std::move(link));
}

/// What Vela is told: all three, since its defaults differ from family to family.
void DescriptionParser::readEthosU(yaml::MappingReader &m, Unit &unit) {
  unit.accelerator = m.text("accelerator");
  if (!unit.accelerator.empty() && !ethosu::findAccelerator(unit.accelerator)) {
    std::string all;
    for (const ethosu::Accelerator &a : ethosu::allAccelerators())
      all += (all.empty() ? "" : ", ") + a.config.str();
    faults.add(m.optional("accelerator")->at, "accelerator '" + unit.accelerator + "' is none of " + all);
  }
  unit.systemConfig = m.text("system_config");
  unit.memoryMode = m.text("memory_mode");
}

/// Features and limits that kernels are made for; the loader holds the device
/// against them again.
void DescriptionParser::readVulkan(yaml::MappingReader &m, Unit &unit) {
  for (const yaml::Node &item : m.items("features", /*isRequired=*/true))
    if (std::optional<std::string> unknown = unit.gpu.addFeatures(item.text)) {
      std::string known;
#define TESSERA_FEATURE(id, word, text) known += std::string(known.empty() ? "" : ", ") + word;
#include "targets/Vulkan/Features.def"
#undef TESSERA_FEATURE
      faults.add(item.at, "feature '" + *unknown + "' is none of " + known);
    }
  unit.gpu.maxInvocations = unsigned(quantity(m, "workgroup", invocations).value);
  unit.gpu.maxLocal = {unit.gpu.maxInvocations, unit.gpu.maxInvocations, 64};
  unit.gpu.sharedBytes = unsigned(quantity(m, "shared", sharedKibibytes).value * 1024);
  unit.gpu.maxBufferRange = uint64_t(quantity(m, "buffer_range", rangeMebibytes).value * 1048576);
}

void DescriptionParser::readUnitFields(yaml::MappingReader &m, Unit &unit, yaml::Position at) {
  std::string kind = m.text("kind");
  if (!kind.empty() && kind != "cpu" && kind != "gpu" && kind != "npu")
    faults.add(m.optional("kind")->at, "kind '" + kind + "' is none of cpu, gpu, npu");
  unit.kind = kind == "npu" ? UnitKind::Npu : kind == "gpu" ? UnitKind::Gpu : UnitKind::Cpu;
  unit.backend = m.text("backend");
  SmallVector<StringRef> backends{"cpu"};
  if (unit.kind == UnitKind::Npu)
    backends = {"tosa-ref", "ethos-u", "rknn"};
  else if (unit.kind == UnitKind::Gpu)
    backends = {"vulkan"};
  bool known = is_contained(backends, unit.backend);
  if (!unit.backend.empty() && !known)
    faults.add(m.optional("backend")->at, "backend '" + unit.backend + "' does not serve units of kind " + kind +
                                              "; known is " + join(backends, ", "));
  if (unit.backend == "ethos-u")
    readEthosU(m, unit);
  if (unit.backend == "vulkan")
    readVulkan(m, unit);
  if (unit.backend == "rknn")
    unit.accelerator = m.text("accelerator");
  if (auto index = memory(m.text("memory"), at))
    unit.memory = *index;
  for (const yaml::Node &item : m.items("precisions", /*isRequired=*/true))
    if (auto p = precision(item.text, item.at)) {
      if (unit.supports(*p))
        faults.add(item.at, "precision '" + item.text + "' is given twice");
      unit.precisions.push_back(*p);
    }
  unit.segments = unit.kind != UnitKind::Cpu;
  unit.channelGranule = quantity(m, "channel_granule", channels);
  unit.onChip = quantity(m, "on_chip", kibibytes);
  if (unit.segments)
    unit.launch = quantity(m, "launch", microseconds);
}

/// Words that do not go together would be found by the vendor's compiler only.
void DescriptionParser::checkEthosU(yaml::MappingReader &m, const Unit &unit) {
  for (Precision p : unit.precisions)
    if (!isQuantised(p))
      faults.add(m.optional("precisions")->at, "backend 'ethos-u' computes in integers, not in " + precisionName(p));
  auto accelerator = ethosu::findAccelerator(unit.accelerator);
  if (!accelerator)
    return; // reported where it was read
  auto check = [&](StringRef key, StringRef word, ArrayRef<StringRef> known) {
    if (!word.empty() && !is_contained(known, word))
      faults.add(m.optional(key)->at,
                 "'" + key + "' of " + unit.accelerator + " is '" + word + "', which is none of " + join(known, ", "));
  };
  check("system_config", unit.systemConfig, ethosu::systemConfigs(accelerator->family));
  check("memory_mode", unit.memoryMode, ethosu::memoryModes(accelerator->family));
}

void DescriptionParser::readUnit(const yaml::Node &node) {
  yaml::MappingReader m(node, "unit", faults);
  std::vector<std::string> taken;
  for (const Unit &other : t.units)
    taken.push_back(other.name);
  Unit unit;
  unit.name = name(m, taken, "unit");
  readUnitFields(m, unit, node.at);
  if (unit.backend == "ethos-u")
    checkEthosU(m, unit);
  bool isFirst = t.units.empty();
  if (isFirst != (unit.kind == UnitKind::Cpu))
    faults.add(node.at, isFirst ? "the first unit must be the CPU, which runs "
                                  "what no other unit can"
                                : "only the first unit is a CPU");
  t.units.push_back(std::move(unit));
}

void DescriptionParser::readCosts(const yaml::Node &node, Unit &unit, StringRef word, yaml::Position at) {
  auto p = precision(word, at);
  yaml::MappingReader m(node, ("params of " + unit.name + ", " + word).str(), faults);
  CostParams c;
  c.peakMacs = quantity(m, "peak_macs", gigamacs);
  c.uDense = quantity(m, "u_dense", ratio);
  c.uDepthwise = quantity(m, "u_dw", ratio);
  c.uMatmul = quantity(m, "u_matmul", ratio);
  c.uLinear = quantity(m, "u_linear", ratio);
  c.uBandwidth = quantity(m, "u_bw", ratio);
  c.vectorRate = quantity(m, "vector_rate", gigabytesPerSecond);
  c.lutRate = quantity(m, "lut_rate", gigaElements);
  c.opTime = quantity(m, "t_op", microseconds);
  if (p)
    unit.params[*p] = std::move(c);
}

void DescriptionParser::readParams(const yaml::Node &node) {
  yaml::MappingReader m(node, "params", faults);
  for (Unit &unit : t.units) {
    const yaml::Node *ofUnit = m.required(unit.name);
    if (!ofUnit)
      continue;
    yaml::MappingReader byPrecision(*ofUnit, "params of unit " + unit.name, faults);
    for (Precision p : unit.precisions)
      if (const yaml::Node *costs = byPrecision.required(precisionName(p)))
        readCosts(*costs, unit, precisionName(p), costs->at);
    // Not what a GPU stores tensors in, but how it multiplies those of bytes.
    bool dots = unit.backend == "vulkan" && unit.gpu.has(vulkan::Feature::DotProduct);
    if (const yaml::Node *costs = dots && !unit.supports(Precision::Int8)
                                      ? byPrecision.optional(precisionName(Precision::Int8))
                                      : nullptr)
      readCosts(*costs, unit, precisionName(Precision::Int8), costs->at);
  }
}

// --- rules -------------------------------------------------------------------

void DescriptionParser::readRuleOps(yaml::MappingReader &m, OpRule &rule, const Unit &unit) {
  for (const yaml::Node &item : m.items("op", /*isRequired=*/true)) {
    if (!::onnx::OpSchemaRegistry::Schema(item.text))
      faults.add(item.at, "operator '" + item.text + "' is not in ai.onnx");
    rule.ops.push_back(item.text);
  }
  for (const yaml::Node &item : m.items("precisions", /*isRequired=*/false))
    if (auto p = precision(item.text, item.at)) {
      if (!unit.supports(*p))
        faults.add(item.at, "unit '" + unit.name + "' does not have precision " + item.text);
      rule.precisions.push_back(*p);
    }
  if (rule.precisions.empty())
    rule.precisions = unit.precisions;
}

/// Whether every operator of the rule has a parameter of that name.
static std::string lacksOperand(const OpRule &rule, StringRef name) {
  for (const std::string &op : rule.ops) {
    const ::onnx::OpSchema *schema = ::onnx::OpSchemaRegistry::Schema(op);
    if (!schema)
      continue;
    auto named = [&](const ::onnx::OpSchema::FormalParameter &p) { return p.GetName() == name; };
    if (none_of(schema->inputs(), named) && none_of(schema->outputs(), named))
      return op;
  }
  return "";
}

static std::string lacksAttribute(const OpRule &rule, StringRef name) {
  for (const std::string &op : rule.ops) {
    const ::onnx::OpSchema *schema = ::onnx::OpSchemaRegistry::Schema(op);
    if (schema && !schema->attributes().count(name.str()))
      return op;
  }
  return "";
}

/// Whether getTypeName() gives this word for some element type of ONNX.
static bool isElementType(StringRef word) {
  for (int t = ::onnx::TensorProto_DataType_DataType_MIN; t <= ::onnx::TensorProto_DataType_DataType_MAX; ++t) {
    if (t == ::onnx::TensorProto_DataType_UNDEFINED || !::onnx::TensorProto_DataType_IsValid(t))
      continue;
    std::string name =
        StringRef(::onnx::TensorProto_DataType_Name(static_cast<::onnx::TensorProto_DataType>(t))).lower();
    name = name == "float" ? "float32" : name == "double" ? "float64" : name;
    if (word == name || word == name + "fn" || word == name + "fnu")
      return true;
  }
  return false;
}

/// A word that no operator can have would make a rule that never holds.
void DescriptionParser::checkWord(const yaml::Node &item, const SubjectInfo &info) {
  StringRef known = info.unit.split(": ").second;
  if (known == "ELEMENT_TYPE" ? isElementType(item.text) : known.empty() || is_contained(split(known, ' '), item.text))
    return;
  if (known == "ELEMENT_TYPE")
    faults.add(item.at, "'" + Twine(item.text) + "' is no element type; such are float32, float16, int8, bool");
  else
    faults.add(item.at, "'" + Twine(item.text) + "' is no word of subject '" + info.word + "'; known are " + known);
}

void DescriptionParser::readDtypes(const yaml::Node &node, OpRule &rule) {
  if (node.kind != yaml::Node::Mapping) {
    faults.add(node.at,
               "types is a mapping from operands to lists of element types, not " + Twine(yaml::kindName(node.kind)));
    return;
  }
  for (auto [key, at, child] : zip(node.keys, node.keyAt, node.children)) {
    if (std::string op = lacksOperand(rule, key); !op.empty())
      faults.add(at, "operator " + op + " has no operand '" + key + "'");
    if (child.kind != yaml::Node::Sequence || child.children.empty())
      faults.add(child.at, "types of '" + key + "' is a list of element types such as [int64]");
    for (const yaml::Node &item : child.children) {
      if (!isElementType(item.text))
        faults.add(item.at, "'" + Twine(item.text) + "' is no element type; such are float32, float16, int8, bool");
      rule.dtypes[key].push_back(item.text);
    }
  }
}

void DescriptionParser::checkArgument(const SubjectInfo &info, const Constraint &c, const OpRule &rule,
                                      yaml::Position at) {
  if (rule.ops.empty() || c.argument.empty())
    return;
  bool attribute = info.argument == Argument::Attribute;
  std::string op = attribute ? lacksAttribute(rule, c.argument) : lacksOperand(rule, c.argument);
  if (!op.empty())
    faults.add(at, "operator " + op + " has no " + (attribute ? "attribute" : "operand") + " '" + c.argument + "'");
}

void DescriptionParser::readLimits(yaml::MappingReader &m, const SubjectInfo &info, Constraint &c) {
  auto limit = [&](StringRef key) -> std::optional<double> {
    const yaml::Node *node = m.optional(key);
    if (node && info.words())
      faults.add(node->at, "'" + info.word + "' is compared with words; use one_of");
    return node && !info.words() ? number(*node, "'" + key + "'") : std::nullopt;
  };
  c.min = limit("min");
  c.max = limit("max");
  c.multiple = limit("multiple");
  if (c.multiple && (*c.multiple < 1 || *c.multiple != std::floor(*c.multiple)))
    faults.add(m.optional("multiple")->at, "'multiple' is a positive integer");
  if (c.min && c.max && *c.min > *c.max)
    faults.add(m.at(), "min exceeds max");
  for (const yaml::Node &item : m.items("one_of", /*isRequired=*/false)) {
    if (info.words()) {
      checkWord(item, info);
      c.words.push_back(item.text);
    } else if (auto v = number(item, "an item of 'one_of'"))
      c.numbers.push_back(*v);
  }
  if (!c.min && !c.max && !c.multiple && c.numbers.empty() && c.words.empty())
    faults.add(m.at(), "constraint without a limit; give " +
                           StringRef(info.words() ? "one_of" : "min, max, multiple or one_of"));
}

Constraint DescriptionParser::readConstraint(const yaml::Node &node, const OpRule &rule) {
  yaml::MappingReader m(node, "constraint", faults);
  Constraint c;
  c.origin = rule.origin;
  c.source = rule.source;
  std::string word = m.text("of");
  const SubjectInfo *info = find_if(subjects, [&](const SubjectInfo &s) { return s.word == word; });
  if (info == std::end(subjects)) {
    if (!word.empty()) {
      std::string known = join(map_range(subjects, [](const SubjectInfo &s) { return s.word.str(); }), ", ");
      faults.add(m.optional("of")->at, "subject '" + word + "' is unknown; known are " + known);
    }
    m.abandon();
    return c;
  }
  c.subject = info->subject;
  if (info->argument == Argument::Attribute)
    c.argument = m.text("name");
  bool mayBeAll = info->argument == Argument::OperandOrAll;
  if (mayBeAll || info->argument == Argument::Operand || info->argument == Argument::OperandAxis)
    c.argument = m.text("tensor", /*isRequired=*/!mayBeAll);
  if (info->argument == Argument::OperandAxis)
    if (const yaml::Node *axis = m.required("axis"))
      if (auto v = number(*axis, "'axis'")) {
        if (*v != std::floor(*v))
          faults.add(axis->at, "'axis' is an integer");
        c.axis = static_cast<int64_t>(*v);
      }
  checkArgument(*info, c, rule, node.at);
  readLimits(m, *info, c);
  readProvenance(m, c.origin, c.source, /*required=*/rule.source.empty());
  return c;
}

OpRule DescriptionParser::readRule(const yaml::Node &node, const Unit &unit) {
  yaml::MappingReader m(node, "rule", faults);
  OpRule rule;
  readRuleOps(m, rule, unit);
  readProvenance(m, rule.origin, rule.source, /*required=*/true);
  rule.refuse = m.text("refuse", /*isRequired=*/false);
  rule.time = quantity(m, "time", microseconds, /*required=*/false);
  for (const yaml::Node &c : m.items("when", /*isRequired=*/false))
    rule.when.push_back(readConstraint(c, rule));
  for (const yaml::Node &c : m.items("require", /*isRequired=*/false))
    rule.require.push_back(readConstraint(c, rule));
  if (const yaml::Node *types = m.optional("types"))
    readDtypes(*types, rule);
  if (!rule.refuse.empty() && !rule.require.empty())
    faults.add(node.at, "a rule either refuses or requires");
  return rule;
}

void DescriptionParser::readUnitRules(const yaml::Node &node, Unit &unit) {
  yaml::MappingReader m(node, "ops of unit " + unit.name, faults);
  for (const yaml::Node &c : m.items("always", /*isRequired=*/false))
    unit.always.push_back(readConstraint(c, {}));
  for (const yaml::Node &item : m.items("rules", /*isRequired=*/true))
    unit.ops.push_back(readRule(item, unit));
}

void DescriptionParser::readOps(const yaml::Node &node) {
  yaml::MappingReader m(node, "ops", faults);
  for (Unit &unit : t.units) {
    if (unit.kind == UnitKind::Cpu)
      continue; // its kernels decide
    if (const yaml::Node *rules = unit.decidesItself() ? m.optional(unit.name) : m.required(unit.name))
      readUnitRules(*rules, unit);
  }
}

void DescriptionParser::finish() {
  for (const Unit &unit : t.units) {
    if (unit.memory == t.units.front().memory)
      continue;
    for (auto [a, b] : {std::pair(t.units.front().memory, unit.memory), std::pair(unit.memory, t.units.front().memory)})
      if (!t.link(a, b))
        faults.add({}, "unit '" + unit.name + "' cannot be reached: no link from memory '" + t.memories[a].name +
                           "' to '" + t.memories[b].name + "'");
  }
}

void DescriptionParser::readTop(const yaml::Node &root) {
  yaml::MappingReader m(root, "target description", faults);
  if (root.kind != yaml::Node::Mapping)
    return;
  std::string schema = m.text("schema");
  if (!schema.empty() && schema != "tessera.target/1")
    faults.add(m.optional("schema")->at, "schema '" + schema + "' is not known; this version reads tessera.target/1");
  t.name = name(m, {}, "target");
  t.summary = m.text("summary", /*isRequired=*/false);
  if (const yaml::Node *cpu = m.required("cpu"))
    readVariants(*cpu);
  for (const yaml::Node &node : m.items("memories", /*isRequired=*/true))
    readMemory(node);
  for (const yaml::Node &node : m.items("units", /*isRequired=*/true))
    readUnit(node);
  if (t.units.empty())
    faults.add(root.at, "a target has at least one unit, its CPU");
  bool needsLinks = any_of(t.units, [&](const Unit &u) { return u.memory != t.units.front().memory; });
  for (const yaml::Node &node : m.items("links", needsLinks))
    readLink(node);
  if (const yaml::Node *params = m.required("params"))
    readParams(*params);
  bool needsRules = t.units.size() > 1 && llvm::any_of(t.units, [](const Unit &u) { return !u.decidesItself(); });
  const yaml::Node *ops = needsRules ? m.required("ops") : m.optional("ops");
  if (ops)
    readOps(*ops);
  if (faults.empty())
    finish();
}

/// The description with what it takes from the one that it names as its base.
yaml::Node DescriptionParser::completed(yaml::Node root) {
  auto key = find(root.keys, "base");
  if (root.kind != yaml::Node::Mapping || key == root.keys.end())
    return root;
  size_t i = key - root.keys.begin();
  const yaml::Node word = root.children[i];
  root.keys.erase(key);
  root.keyAt.erase(root.keyAt.begin() + i);
  root.children.erase(root.children.begin() + i);
  StringRef text = builtinTargetText(word.text);
  if (word.kind != yaml::Node::Scalar || text.empty()) {
    faults.add(word.at, "base '" + word.text + "' is no built-in target");
    return root;
  }
  return yaml::overlay(completed(yaml::parse(text, faults)), root, word.at);
}

Expected<TargetDescription> DescriptionParser::run(StringRef text) {
  yaml::Node root = yaml::parse(text, faults);
  if (faults.empty())
    root = completed(std::move(root));
  if (faults.empty())
    readTop(root);
  if (!faults.empty())
    return createStringError(std::make_error_code(std::errc::invalid_argument), Twine(faults.print()));
  t.text = text.str();
  return std::move(t);
}

} // namespace

Expected<TargetDescription> parseTarget(StringRef text, StringRef origin) {
  return DescriptionParser(origin).run(text);
}

} // namespace tessera
