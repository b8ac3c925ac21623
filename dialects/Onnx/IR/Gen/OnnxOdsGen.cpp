// Writes the ODS description of the newest version of every operator in the
// linked ONNX schema registry, one file a category:
//
//   onnx-ods-gen OUTPUT_DIR CATEGORY...   ->  Ops<Category>.{td,h,cpp}, OnnxOps.h,
//                                             OnnxRegister.cpp
//   onnx-ods-gen --list                   ->  the categories, one a line
//
// The category is the folder of ONNX's own source that defines the operator.
// The output is sorted: a new ONNX release shows as a readable difference.
#include "onnx/defs/schema.h"
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace onnx;

namespace {

const std::map<std::string, std::string> elementConstraints = {
    {"float", "F32"},
    {"double", "F64"},
    {"float16", "F16"},
    {"bfloat16", "BF16"},
    {"int8", "I8"},
    {"int16", "I16"},
    {"int32", "I32"},
    {"int64", "I64"},
    {"uint8", "UI8"},
    {"uint16", "UI16"},
    {"uint32", "UI32"},
    {"uint64", "UI64"},
    {"bool", "I1"},
    {"string", "Onnx_String"},
    {"complex64", "Complex<F32>"},
    {"complex128", "Complex<F64>"},
    {"float8e4m3fn", "F8E4M3FN"},
    {"float8e4m3fnuz", "F8E4M3FNUZ"},
    {"float8e5m2", "F8E5M2"},
    {"float8e5m2fnuz", "F8E5M2FNUZ"},
    {"float8e8m0", "F8E8M0FNU"},
    {"float4e2m1", "F4E2M1FN"},
    {"float6e2m3", "F6E2M3FN"},
    {"float6e3m2", "F6E3M2FN"},
    {"int4", "I<4>"},
    {"uint4", "UI<4>"},
    {"int2", "I<2>"},
    {"uint2", "UI<2>"}};

const std::map<std::string, std::string> categoryOfFolder = {
    {"controlflow", "ControlFlow"}, {"generator", "Generator"},
    {"image", "Sequence"},          {"logical", "Logical"},
    {"math", "Math"},               {"nn", "Nn"},
    {"object_detection", "Vision"}, {"optional", "Sequence"},
    {"preview", "Training"},        {"quantization", "Quantization"},
    {"reduction", "Reduction"},     {"rnn", "Rnn"},
    {"sequence", "Sequence"},       {"tensor", "Tensor"},
    {"text", "Sequence"},           {"traditionalml", "Ml"},
    {"training", "Training"}};

// Prefix of the operator's name in the dialect, by domain.
const std::map<std::string, std::string> prefixOfDomain = {
    {"", ""},
    {"ai.onnx.ml", "ml."},
    {"ai.onnx.preview", "preview."},
    {"ai.onnx.preview.training", "training."}};

[[noreturn]] void die(const std::string &message) {
  fprintf(stderr, "onnx-ods-gen: %s\n", message.c_str());
  exit(1);
}

std::string categoryOf(const OpSchema &schema) {
  const std::string &file = schema.file();
  size_t at = file.rfind("/defs/");
  if (at == std::string::npos)
    die("no category for " + schema.Name() + " of " + file);
  size_t begin = at + 6, end = file.find('/', begin);
  auto it = categoryOfFolder.find(file.substr(begin, end - begin));
  if (it == categoryOfFolder.end())
    die("unknown category of " + schema.Name() + ": " + file);
  return it->second;
}

std::string quote(const std::string &text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

std::string join(const std::vector<std::string> &parts, const char *separator) {
  std::string out;
  for (const std::string &part : parts)
    out += (out.empty() ? "" : separator) + part;
  return out;
}

// Type sets of the registry. Equal sets share one def, so that mlir-tblgen
// emits one predicate for each.
class Constraints {
public:
  std::string get(const DataTypeSet &types) {
    std::set<std::string> elements, others;
    for (DataType type : types) {
      const std::string &s = *type;
      if (s.starts_with("tensor("))
        elements.insert(element(s.substr(7, s.size() - 8)));
      else if (s.starts_with("seq("))
        others.insert("Onnx_Seq");
      else if (s.starts_with("optional("))
        others.insert("Onnx_Opt");
      else if (s.starts_with("map("))
        others.insert("Onnx_Map");
      else if (s.starts_with("sparse_tensor("))
        others.insert("AnyTensor");
      else
        elements.insert(element(s));
    }
    std::vector<std::string> parts;
    if (!elements.empty())
      parts.push_back("TensorOf<[" + join({elements.begin(), elements.end()}, ", ") + "]>");
    parts.insert(parts.end(), others.begin(), others.end());
    if (parts.empty())
      return "Onnx_AnyValue";
    std::string body = join(parts, ", ");
    auto [it, fresh] = names.try_emplace(body);
    if (fresh) {
      it->second = "Onnx_T" + std::to_string(names.size());
      defs += "def " + it->second + " : AnyTypeOf<[" + body + "]>;\n";
    }
    return it->second;
  }
  std::string defs;

private:
  static std::string element(const std::string &name) {
    auto it = elementConstraints.find(name);
    if (it == elementConstraints.end())
      die("unknown element type " + name);
    return it->second;
  }
  std::map<std::string, std::string> names;
};

// Keeps ODS names unique and away from accessors that mlir::Op already has.
class Names {
public:
  std::string pick(std::string name, const char *suffix) {
    for (char &c : name)
      if (!isalnum((unsigned char)c))
        c = '_';
    static const std::set<std::string> reserved = {
        "type",    "types",   "operands",  "results", "result",     "operand", "attributes",
        "regions", "region",  "operation", "context", "loc",        "name",    "properties",
        "attr",    "parent",  "input_kinds", "output_kinds", "input_names", "since_version"};
    while (reserved.contains(name) || used.contains(accessor(name)))
      name += suffix;
    used.insert(accessor(name));
    return name;
  }

private:
  // getFooBar is made of foo_bar, foo_Bar, FooBar.
  static std::string accessor(const std::string &name) {
    std::string key;
    for (char c : name)
      if (c != '_')
        key += (char)tolower((unsigned char)c);
    return key;
  }
  std::set<std::string> used;
};

std::string floatText(float value) {
  char text[64];
  snprintf(text, sizeof text, "%.9g", value);
  std::string s = text;
  if (s.find_first_of(".en") == std::string::npos)
    s += ".0";
  return "::llvm::APFloat(" + s + "f)";
}

std::string attribute(const OpSchema::Attribute &a) {
  using A = AttributeProto;
  const AttributeProto &d = a.default_value;
  bool hasDefault = d.has_name() || d.type() != A::UNDEFINED;
  std::string base, value;
  switch (a.type) {
  case A::INT:
    base = "I64Attr", value = std::to_string(d.i());
    break;
  case A::FLOAT:
    base = "F32Attr", value = floatText(d.f());
    break;
  case A::STRING:
    base = "StrAttr", value = d.s();
    break;
  case A::INTS: {
    base = "DenseI64ArrayAttr";
    std::vector<std::string> ints;
    for (int64_t v : d.ints())
      ints.push_back(std::to_string(v));
    value = "{" + join(ints, ", ") + "}";
    break;
  }
  case A::FLOATS:
    base = "DenseF32ArrayAttr", hasDefault = false;
    break;
  case A::STRINGS:
    base = "StrArrayAttr", hasDefault = false;
    break;
  case A::TENSOR:
    base = "ElementsAttr", hasDefault = false;
    break;
  case A::TENSORS:
    base = "ArrayAttr", hasDefault = false;
    break;
  case A::TYPE_PROTO:
    base = "TypeAttr", hasDefault = false;
    break;
  default:
    base = "AnyAttr", hasDefault = false;
    break;
  }
  if (a.required)
    return base;
  if (!hasDefault)
    return "OptionalAttr<" + base + ">";
  if (base == "StrAttr")
    return "DefaultValuedStrAttr<StrAttr, " + quote(value) + ">";
  return "DefaultValuedAttr<" + base + ", " + quote(value) + ">";
}

std::string operation(const OpSchema &s, Constraints &constraints) {
  Names names;
  std::vector<std::string> args, results, regions, traits, inputNames;
  std::string inputKinds, outputKinds;
  auto value = [&](const OpSchema::FormalParameter &p, const char *suffix, std::string &kinds) {
    std::string type = constraints.get(p.GetTypes());
    switch (p.GetOption()) {
    case OpSchema::Single:
      kinds += '1';
      break;
    case OpSchema::Optional:
      kinds += '?', type = "Optional<" + type + ">";
      break;
    case OpSchema::Variadic:
      kinds += '*', type = "Variadic<" + type + ">";
      break;
    }
    return type + ":$" + names.pick(p.GetName(), suffix);
  };
  for (auto &p : s.inputs())
    args.push_back(value(p, "_in", inputKinds)), inputNames.push_back(p.GetName());
  for (auto &p : s.outputs())
    results.push_back(value(p, "_out", outputKinds));
  // The registry keeps attributes in a hash map. Bodies are in descending order
  // of their names, which puts then_branch before else_branch.
  std::map<std::string, const OpSchema::Attribute *> attributes;
  for (auto &[name, a] : s.attributes())
    attributes.emplace(name, &a);
  for (auto &[name, a] : attributes)
    if (a->type == AttributeProto::GRAPH)
      regions.insert(regions.begin(), (a->required ? "SizedRegion<1>:$" : "AnyRegion:$") +
                                          names.pick(name, "_region"));
    else
      args.push_back(attribute(*a) + ":$" + names.pick(name, "_attr"));

  auto flexible = [](const std::string &kinds) {
    return kinds.size() - std::count(kinds.begin(), kinds.end(), '1');
  };
  if (flexible(inputKinds) > 1)
    traits.push_back("AttrSizedOperandSegments");
  if (flexible(outputKinds) > 1)
    traits.push_back("AttrSizedResultSegments");
  if (!regions.empty())
    traits.push_back("RecursiveMemoryEffects");
  else if (s.GetNodeDeterminism() != OpSchema::NodeDeterminism::NonDeterministic)
    traits.push_back("Pure");

  std::ostringstream out;
  out << "def Onnx_" << s.Name() << "Op : Onnx_Op<\"" << prefixOfDomain.at(s.domain()) << s.Name()
      << "\", " << s.since_version() << ", \"" << inputKinds << "\", \"" << outputKinds << "\", \""
      << join(inputNames, ",") << "\", [" << join(traits, ", ") << "]> {\n"
      << "  let summary = \"ONNX " << s.Name() << ", since version " << s.since_version() << "\";\n"
      << "  let arguments = (ins\n    " << join(args, ",\n    ") << ");\n"
      << "  let results = (outs\n    " << join(results, ",\n    ") << ");\n";
  if (!regions.empty())
    out << "  let regions = (region\n    " << join(regions, ",\n    ") << ");\n";
  out << "}\n";
  return out.str();
}

void write(const std::string &path, const std::string &text) {
  std::ofstream file(path);
  file << "// Generated by onnx-ods-gen from the ONNX schema registry.\n" << text;
  if (!file.flush())
    die("cannot write " + path);
}

void writeCpp(const std::string &dir, const std::string &category) {
  const std::string base = "dialects/Onnx/IR/Ops" + category;
  write(dir + "/Ops" + category + ".h",
        "#ifndef TESSERA_ONNX_OPS_" + category + "\n#define TESSERA_ONNX_OPS_" + category +
            "\n#include \"dialects/Onnx/IR/OnnxDialect.h\"\n#define GET_OP_CLASSES\n#include \"" +
            base + ".h.inc\"\n#endif\n");
  write(dir + "/Ops" + category + ".cpp",
        "#include \"" + base + ".h\"\n#include \"dialects/Onnx/IR/OnnxRegister.h\"\n#define GET_OP_CLASSES\n#include \"" + base +
            ".cpp.inc\"\nvoid tessera::onnx::register" + category +
            "Ops(OnnxDialect &dialect) {\n  insertOps<\n#define GET_OP_LIST\n#include \"" + base +
            ".cpp.inc\"\n  >(dialect);\n}\n");
}

} // namespace

int main(int argc, char **argv) {
  std::vector<OpSchema> schemas;
  for (OpSchema &s : OpSchemaRegistry::get_all_schemas()) { // the newest versions
    if (!prefixOfDomain.contains(s.domain()))
      continue;
    if (!s.Deprecated())
      schemas.push_back(s);
    else if (s.domain() == "ai.onnx.ml") // out of favour, but what models hold
      schemas.push_back(
          *OpSchemaRegistry::Schema(s.Name(), s.since_version() - 1, s.domain()));
  }
  std::sort(schemas.begin(), schemas.end(),
            [](auto &a, auto &b) { return a.Name() < b.Name(); });
  std::map<std::string, std::vector<const OpSchema *>> categories;
  for (const OpSchema &s : schemas)
    categories[categoryOf(s)].push_back(&s);

  if (argc == 2 && std::string(argv[1]) == "--list") {
    for (auto &[category, ops] : categories)
      printf("%s %zu\n", category.c_str(), ops.size());
    return 0;
  }
  if (argc < 3)
    die("usage: onnx-ods-gen OUTPUT_DIR CATEGORY...");
  std::string dir = argv[1];
  std::set<std::string> wanted(argv + 2, argv + argc);
  for (auto &[category, ops] : categories)
    if (!wanted.contains(category))
      die("category " + category + " is not in dialects/Onnx/IR/CMakeLists.txt");

  std::string umbrella = "#ifndef TESSERA_ONNX_OPS\n#define TESSERA_ONNX_OPS\n"
                         "#include \"dialects/Onnx/IR/OpsCore.h\"\n";
  std::string declare, call;
  wanted.insert("Core");
  for (const std::string &category : wanted) {
    if (category != "Core") {
      Constraints constraints;
      std::string text;
      for (const OpSchema *s : categories[category])
        text += operation(*s, constraints);
      write(dir + "/Ops" + category + ".td",
            "include \"dialects/Onnx/IR/OnnxDialect.td\"\n" + constraints.defs + text);
      umbrella += "#include \"dialects/Onnx/IR/Ops" + category + ".h\"\n";
    }
    writeCpp(dir, category);
    declare += "void register" + category + "Ops(OnnxDialect &);\n";
    call += "  register" + category + "Ops(dialect);\n";
  }
  write(dir + "/OnnxOps.h", umbrella + "#endif\n");
  write(dir + "/OnnxRegister.h", "#include \"dialects/Onnx/IR/OnnxDialect.h\"\n"
                                 "namespace tessera::onnx {\n" + declare + "}\n");
  write(dir + "/OnnxRegister.cpp",
        "#include \"dialects/Onnx/IR/OnnxRegister.h\"\nnamespace tessera::onnx {\n"
        "void registerGeneratedOps(OnnxDialect &dialect) {\n" + call + "}\n}\n");
}
