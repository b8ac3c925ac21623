// Prints one line a value: its node, the dimensions as expressions, contents
// if they are known, and the requirements at the end. With `dims`, evaluates
// the expressions for given input shapes instead ("?" where a leaf is run-time
// data that `data` does not give).
#include "dialects/Onnx/Shapes/PrintShapes.h"
#include "dialects/Onnx/IR/OnnxDialect.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "dialects/Onnx/Shapes/ShapeAnalysis.h"

using namespace mlir;

namespace tessera::onnx {

namespace {

struct PrintShapesPass : PassWrapper<PrintShapesPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PrintShapesPass)

  PrintShapesPass() = default;
  PrintShapesPass(const PrintShapesPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "onnx-print-shapes"; }
  StringRef getDescription() const override {
    return "print symbolic dimensions and contents of all values";
  }

  Option<std::string> dims{*this, "dims",
                           llvm::cl::desc("shapes of the inputs, as 1x3x8,4,scalar: evaluate")};
  Option<std::string> data{*this, "data",
                           llvm::cl::desc("contents of integer inputs, as 1:3,4;2:7")};

  void runOnOperation() override {
    if (!dims.empty())
      parseInputs();
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (failed(printFunction(func)))
        signalPassFailure();
  }

  LogicalResult printFunction(func::FuncOp func) {
    auto found = ShapeAnalysis::run(func);
    if (failed(found))
      return failure();
    ShapeAnalysis &shapes = **found;
    std::optional<SymEvaluator> eval;
    if (!dims.empty())
      eval.emplace([&](Sym leaf) { return leafValue(func, leaf); });
    auto number = [&](llvm::raw_ostream &os, Sym s) {
      if (!eval)
        os << *s;
      else if (auto v = (*eval)(s))
        os << *v;
      else
        os << "?";
    };
    auto list = [&](llvm::raw_ostream &os, ArrayRef<Sym> all) {
      llvm::interleaveComma(all, os, [&](Sym s) { number(os, s); });
    };
    llvm::raw_ostream &os = llvm::outs();
    auto value = [&](Value v) {
      if (!isa<TensorType>(v.getType())) {
        os << "not a tensor\n";
        return;
      }
      if (!shapes.hasDims(v)) {
        os << "unknown\n";
        return;
      }
      os << "[";
      list(os, shapes.dims(v));
      os << "]";
      if (auto contents = shapes.contents(v);
          contents && v.getDefiningOp() && !v.getDefiningOp()->hasTrait<OpTrait::ConstantLike>()) {
        os << " = {";
        list(os, *contents);
        os << "}";
      }
      os << "\n";
    };
    os << "func " << func.getName() << "\n";
    func.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op->hasTrait<OpTrait::ConstantLike>() || op->hasTrait<OpTrait::IsTerminator>())
        return;
      for (OpResult result : op->getResults()) {
        StringRef name = getNodeName(op);
        os << "  " << (name.empty() ? op->getName().getStringRef() : name);
        if (op->getNumResults() > 1)
          os << "#" << result.getResultNumber();
        os << ": ";
        value(result);
      }
    });
    Operation *end = func.getBody().front().getTerminator();
    for (auto [i, v] : llvm::enumerate(end->getOperands())) {
      os << "  return " << i << ": ";
      value(v);
    }
    for (const ShapeRequirement &r : shapes.requirements()) {
      if (eval && (*eval)(r.condition) == 1)
        continue;
      os << "  require ";
      number(os, r.condition);
      os << ": " << r.message << "\n";
    }
    os.flush();
    return success();
  }

  void parseInputs() {
    SmallVector<StringRef> items, parts;
    StringRef(dims).split(items, ',', -1, false);
    for (StringRef item : items) {
      auto &shape = inputDims.emplace_back();
      parts.clear();
      if (item != "scalar")
        item.split(parts, 'x');
      for (StringRef p : parts)
        p.getAsInteger(10, shape.emplace_back());
    }
    items.clear();
    StringRef(data).split(items, ';', -1, false);
    for (StringRef item : items) {
      auto [index, list] = item.split(':');
      unsigned number = 0;
      index.getAsInteger(10, number);
      parts.clear();
      list.split(parts, ',');
      for (StringRef p : parts)
        p.getAsInteger(10, inputData[number].emplace_back());
    }
  }

  std::optional<int64_t> leafValue(func::FuncOp func, Sym leaf) {
    auto arg = dyn_cast<BlockArgument>(leaf->value);
    if (!arg || arg.getOwner() != &func.getBody().front())
      return std::nullopt;
    unsigned n = arg.getArgNumber();
    size_t i = leaf->imm;
    if (leaf->kind == SymKind::InputDim && n < inputDims.size() && i < inputDims[n].size())
      return inputDims[n][i];
    if (leaf->kind == SymKind::Data && inputData.count(n) && i < inputData[n].size())
      return inputData[n][i];
    return std::nullopt;
  }

  std::vector<std::vector<int64_t>> inputDims;
  std::map<unsigned, std::vector<int64_t>> inputData;
};

} // namespace

std::unique_ptr<Pass> createPrintShapesPass() { return std::make_unique<PrintShapesPass>(); }
void registerPrintShapesPass() { registerPass([] { return createPrintShapesPass(); }); }

} // namespace tessera::onnx
