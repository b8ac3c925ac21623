// Holds the symbolic shape analysis against recorded runs.
//
//   shape-check [--erase|--open] CASES.jsonl       (written by record.py)
//
// --erase forgets the shapes that the importer inferred, --open the static
// dimensions of the inputs as well: all must then follow from the rules.
//
// A line is one run: {"model": path, "inputs": [{"dims": [...], "data": [...]}],
// "values": {name: dims}, "contents": {name: integers}}. The model is imported
// with open dimensions as they are, analysed, and every expression evaluated
// with the leaves taken from the recording: it must give the recorded dims.
#include "compiler/Import/Import.h"
#include "compiler/Registration.h"
#include "dialects/Onnx/IR/OnnxDialect.h"
#include "dialects/Onnx/Shapes/ShapeAnalysis.h"

#include "mlir/IR/Verifier.h"
#include "nlohmann/json.hpp"
#include <chrono>
#include <fstream>
#include <iostream>

using namespace mlir;
using namespace tessera;
using nlohmann::json;

namespace {

enum class Mode { AsIs, Erase, Open };

struct Totals {
  unsigned models = 0, refusedImport = 0, failedAnalysis = 0, wrongModels = 0;
  unsigned values = 0, right = 0, wrong = 0, unknown = 0, missing = 0;
  unsigned dims = 0, extents = 0;
  double worstMs = 0;
};

// The tensor's name in the model: that of the argument, or of the node's first output.
std::string nameOf(Value v) {
  auto loc = v.getLoc();
  if (auto arg = dyn_cast<BlockArgument>(v))
    if (auto named = dyn_cast<NameLoc>(loc))
      return named.getName().str();
  auto result = dyn_cast<OpResult>(v);
  if (!result || result.getResultNumber() != 0)
    return "";
  if (auto named = dyn_cast<NameLoc>(loc)) {
    if (auto child = dyn_cast<NameLoc>(named.getChildLoc()))
      return child.getName().str();
  }
  return "";
}

class Check {
public:
  Check(const json &record, Mode mode, Totals &totals)
      : record(record), mode(mode), totals(totals) {}

  void run() {
    DialectRegistry registry;
    registerDialects(registry);
    MLIRContext context(registry, MLIRContext::Threading::DISABLED);
    std::string messages;
    context.getDiagEngine().registerHandler([&](Diagnostic &d) {
      if (d.getSeverity() == DiagnosticSeverity::Error)
        messages += "    " + d.str() + "\n";
      return success();
    });
    ++totals.models;
    path = record["model"];
    auto module = importOnnx(path, {}, &context);
    if (failed(module)) {
      ++totals.refusedImport;
      std::cout << "import  " << path << "\n" << messages;
      return;
    }
    auto func = *(*module)->getOps<func::FuncOp>().begin();
    if (mode != Mode::AsIs)
      erase(func);
    auto start = std::chrono::steady_clock::now();
    auto found = tessera::onnx::ShapeAnalysis::run(func);
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    totals.worstMs = std::max(totals.worstMs, ms);
    if (failed(found)) {
      ++totals.failedAnalysis;
      std::cout << "failed  " << path << "\n" << messages;
      return;
    }
    if (failed(verify(**module))) {
      ++totals.failedAnalysis;
      std::cout << "invalid " << path << "\n" << messages;
      return;
    }
    shapes = found->get();
    tessera::onnx::SymEvaluator eval([&](tessera::onnx::Sym leaf) { return leafValue(func, leaf); });
    evaluator = &eval;
    unsigned before = totals.wrong;
    func.getBody().front().walk([&](Operation *op) {
      if (op->getParentOp() == func)
        for (Value v : op->getResults())
          compare(nameOf(v), v);
    });
    Operation *end = func.getBody().front().getTerminator();
    for (auto [i, v] : llvm::enumerate(end->getOperands()))
      if (auto name = func.getResultAttrOfType<StringAttr>(i, "onnx.name"))
        compare(name.str(), v);
    for (const tessera::onnx::ShapeRequirement &r : shapes->requirements())
      if (r.op->getParentOp() == func || r.op == func)
        if (auto ok = eval(r.condition); ok && *ok != 1)
          wrong("requirement " + tessera::onnx::toString(r.condition) + ": " + r.message);
    totals.wrongModels += totals.wrong != before;
  }

private:
  static void eraseResults(Region &region) {
    for (Block &block : region) {
      if (isa<tessera::onnx::OnnxDialect>(region.getParentOp()->getDialect()))
        for (Value v : block.getArguments())
          if (auto type = dyn_cast<TensorType>(v.getType()))
            v.setType(UnrankedTensorType::get(type.getElementType()));
      for (Operation &op : block) {
        if (!op.hasTrait<OpTrait::ConstantLike>())
          for (Value v : op.getResults())
            if (auto type = dyn_cast<TensorType>(v.getType()))
              v.setType(UnrankedTensorType::get(type.getElementType()));
        for (Region &inner : op.getRegions())
          eraseResults(inner);
      }
    }
  }

  void erase(func::FuncOp func) {
    eraseResults(func.getBody());
    Block &body = func.getBody().front();
    if (mode == Mode::Open)
      for (Value v : body.getArguments())
        if (auto type = dyn_cast<RankedTensorType>(v.getType()); type && type.hasStaticShape())
          if (!isa<IntegerType>(type.getElementType()) || type.getNumElements() > 256)
            v.setType(RankedTensorType::get(
                SmallVector<int64_t>(type.getRank(), ShapedType::kDynamic), type.getElementType()));
    func.setType(FunctionType::get(func.getContext(), body.getArgumentTypes(),
                                   body.getTerminator()->getOperandTypes()));
  }

  void wrong(const std::string &text) {
    ++totals.wrong;
    std::cout << "wrong   " << path << "\n    " << text << "\n";
  }

  static std::string text(const json &dims) { return dims.dump(); }

  void compare(const std::string &name, Value v) {
    if (name.empty() || !record["values"].contains(name) || !isa<TensorType>(v.getType()))
      return;
    const json &actual = record["values"][name];
    ++totals.values;
    if (!shapes->hasDims(v)) {
      ++totals.unknown;
      return;
    }
    auto dims = shapes->dims(v);
    std::string mine = "[";
    bool same = dims.size() == actual.size(), known = true;
    for (auto [i, d] : llvm::enumerate(dims)) {
      ++totals.dims;
      bool extent = d->kind == tessera::onnx::SymKind::Extent;
      totals.extents += extent;
      auto value = (*evaluator)(d);
      mine += (i ? "," : "") + tessera::onnx::toString(d) + (value ? "=" + std::to_string(*value) : "=?");
      if (!value)
        known = false;
      else if (same && *value != actual[i].get<int64_t>())
        same = false;
    }
    if (!same)
      wrong(name + " is " + mine + "] but ran as " + text(actual));
    else if (!known)
      ++totals.missing;
    else
      ++totals.right;
    if (auto contents = shapes->contents(v); contents && record["contents"].contains(name)) {
      const json &data = record["contents"][name];
      for (auto [i, s] : llvm::enumerate(*contents))
        if (auto value = (*evaluator)(s); value && i < data.size() && *value != data[i].get<int64_t>()) {
          wrong("contents of " + name + " at " + std::to_string(i) + " are " + tessera::onnx::toString(s) +
                "=" + std::to_string(*value) + " but were " + data[i].dump());
          break;
        }
    }
  }

  std::optional<int64_t> leafValue(func::FuncOp func, tessera::onnx::Sym leaf) {
    size_t i = leaf->imm;
    Value v = leaf->value;
    if (auto arg = dyn_cast<BlockArgument>(v); arg && arg.getOwner() == &func.getBody().front()) {
      const json &input = record["inputs"][arg.getArgNumber()];
      const json &list = input[leaf->kind == tessera::onnx::SymKind::Data ? "data" : "dims"];
      if (list.is_array() && i < list.size())
        return list[i].get<int64_t>();
      return std::nullopt;
    }
    std::string name = nameOf(v);
    const json &table = record[leaf->kind == tessera::onnx::SymKind::Data ? "contents" : "values"];
    if (name.empty() || !table.contains(name) || i >= table[name].size())
      return std::nullopt;
    return table[name][i].get<int64_t>();
  }

  const json &record;
  Mode mode;
  Totals &totals;
  std::string path;
  tessera::onnx::ShapeAnalysis *shapes = nullptr;
  tessera::onnx::SymEvaluator *evaluator = nullptr;
};

} // namespace

int main(int argc, char **argv) {
  Mode mode = Mode::AsIs;
  if (argc == 3 && std::string(argv[1]) == "--erase")
    mode = Mode::Erase;
  else if (argc == 3 && std::string(argv[1]) == "--open")
    mode = Mode::Open;
  else if (argc != 2) {
    std::cerr << "usage: shape-check [--erase|--open] CASES.jsonl\n";
    return 2;
  }
  std::ifstream file(argv[argc - 1]);
  Totals t;
  std::string line;
  while (std::getline(file, line)) {
    json record = json::parse(line);
    Check(record, mode, t).run();
  }
  std::cout << t.models << " models: " << t.refusedImport << " not imported, " << t.failedAnalysis
            << " not analysed, " << t.wrongModels << " with wrong shapes\n"
            << t.values << " values: " << t.right << " right, " << t.wrong << " wrong, "
            << t.missing << " with run-time parts that were not recorded, " << t.unknown
            << " unknown; " << t.extents << " of " << t.dims << " dimensions left to kernels\n"
            << "slowest analysis " << t.worstMs << " ms\n";
  return t.wrong || t.failedAnalysis ? 1 : 0;
}
