// `tosa-round-trip`: what a device of some precision would compute, on the CPU.
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/Canonicalise/Dequantised.h"
#include "passes/Canonicalise/OnnxBuilder.h"
#include "targets/Tosa/Lower/Lowerer.h"
#include "targets/Tosa/Raise.h"
#include "targets/Tosa/Segment.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

using Run = SmallVector<Operation *>;

std::optional<Precision> parsePrecision(StringRef word) {
  for (Precision p : allPrecisions)
    if (word == precisionName(p))
      return p;
  return std::nullopt;
}

/// Whether a quantised run may end with `op`.
bool givesIntegers(Operation *op) {
  return onnx::isOp(op, "QuantizeLinear") || onnx::isIntegerSum(op);
}

/// The longest part of `ops` that starts at `from` and lowers; empty if none.
Run longestAt(ArrayRef<Operation *> ops, size_t from, Precision precision) {
  for (size_t end = ops.size(); end > from; --end) {
    if (isQuantised(precision) && !givesIntegers(ops[end - 1]))
      continue;
    Reasons reasons;
    ArrayRef<Operation *> part = ops.slice(from, end - from);
    if (succeeded(canLower(part, precision, reasons)))
      return Run(part);
  }
  return {};
}

/// Runs of operators that stand together and lower together, in order.
SmallVector<Run> findRuns(Block &block, const RoundTripOptions &options) {
  SmallVector<Run> stretches(1), runs;
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::ConstantLike>())
      continue;
    // What quantises a float from outside stays outside, before the run.
    Operation *source = op.getNumOperands() ? op.getOperand(0).getDefiningOp() : nullptr;
    if (isQuantised(options.precision) && op.getName().getStringRef() == "onnx.QuantizeLinear" &&
        !llvm::is_contained(stretches.back(), source))
      continue;
    Reasons reasons;
    Operation *alone = &op;
    bool possible = isQuantised(options.precision) ? findLowering(&op, options.precision) != nullptr
                                                         : succeeded(canLower(alone, options.precision, reasons));
    if (possible)
      stretches.back().push_back(&op);
    else if (!stretches.back().empty())
      stretches.emplace_back();
  }
  for (Run &stretch : stretches)
    for (size_t at = 0; at < stretch.size();) {
      Run run = longestAt(stretch, at, options.precision);
      at += std::max<size_t>(run.size(), 1);
      if ((int64_t)run.size() >= options.minimum)
        runs.push_back(run);
    }
  return runs;
}

LogicalResult dumpFile(const Segment &s, StringRef folder, unsigned index, Location loc) {
  SmallString<128> path(folder);
  llvm::sys::path::append(path, "segment" + std::to_string(index) + ".tosa");
  std::error_code ec = llvm::sys::fs::create_directories(folder);
  if (!ec) {
    llvm::raw_fd_ostream os(path, ec);
    if (!ec)
      os.write(reinterpret_cast<const char *>(s.file.data()), s.file.size());
    os.close();
    ec = os.has_error() ? os.error() : ec;
  }
  return ec ? LogicalResult(emitError(loc) << "cannot write " << path.str() << ": " << ec.message()) : success();
}

func::FuncOp mainOf(Segment &s) { return s.readBack->lookupSymbol<func::FuncOp>("main"); }

/// Puts what the file says in the place of `run`.
LogicalResult replaceRun(const Run &run, Segment &s) {
  OpBuilder builder(run.back());
  onnx::OnnxBuilder b(builder, run.back()->getLoc());
  func::FuncOp main = mainOf(s);
  SmallVector<Value> arguments;
  for (auto [v, type] : llvm::zip_equal(s.border.inputs, main.getArgumentTypes()))
    arguments.push_back(b.cast(v, cast<ShapedType>(type).getElementType()));
  auto results = raiseToOnnx(main, arguments, builder);
  if (failed(results))
    return failure();
  for (auto [output, result] : llvm::zip_equal(s.border.outputs, *results)) {
    Value v = output;
    v.replaceAllUsesWith(b.cast(result, onnx::elementType(v)));
  }
  for (Operation *op : llvm::reverse(run))
    op->erase();
  return success();
}

/// Makes the function that one segment alone, under the device's types.
LogicalResult keepOnly(func::FuncOp func, Segment &s) {
  func::FuncOp main = mainOf(s);
  Block &old = func.getBody().front();
  Block *body = func.addBlock();
  for (Type t : main.getArgumentTypes())
    body->addArgument(t, func.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(body);
  auto results = raiseToOnnx(main, body->getArguments(), builder);
  if (failed(results))
    return failure();
  func::ReturnOp::create(builder, func.getLoc(), *results);
  old.dropAllDefinedValueUses();
  old.erase();
  func.setType(main.getFunctionType());
  auto named = [&](StringRef stem, unsigned count) {
    SmallVector<DictionaryAttr> all;
    for (unsigned i = 0; i < count; ++i)
      all.push_back(builder.getDictionaryAttr(
          builder.getNamedAttr("onnx.name", builder.getStringAttr(stem + std::to_string(i)))));
    return all;
  };
  func.setAllArgAttrs(named("input", main.getNumArguments()));
  func.setAllResultAttrs(named("output", main.getNumResults()));
  return success();
}

class RoundTripPass : public PassWrapper<RoundTripPass, OperationPass<func::FuncOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RoundTripPass)
  RoundTripPass() = default;
  RoundTripPass(const RoundTripPass &other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "tosa-round-trip"; }
  StringRef getDescription() const override { return "sends what TOSA can express through its file and back"; }
  void getDependentDialects(DialectRegistry &registry) const override { registry.insert<mlir::tosa::TosaDialect>(); }
  void runOnOperation() override {
    auto parsed = parsePrecision(precision);
    if (!parsed) {
      getOperation().emitError() << "tosa-round-trip: no precision is called '" << precision << "'";
      return signalPassFailure();
    }
    if (failed(roundTrip(getOperation(), {*parsed, dump, only, minimum})))
      signalPassFailure();
  }
  Option<std::string> precision{*this, "precision", llvm::cl::desc("f32, f16, int8 or int16"), llvm::cl::init("f32")};
  Option<std::string> dump{*this, "dump", llvm::cl::desc("folder for the files"), llvm::cl::init("")};
  Option<int64_t> only{*this, "only", llvm::cl::desc("the segment to keep alone"), llvm::cl::init(-1)};
  Option<int64_t> minimum{*this, "minimum", llvm::cl::desc("operators that a segment has at least"), llvm::cl::init(1)};
};

} // namespace

std::optional<RoundTripOptions> parseRoundTrip(StringRef text) {
  SmallVector<StringRef> words;
  text.split(words, ',');
  auto precision = parsePrecision(words.front());
  if (!precision)
    return std::nullopt;
  RoundTripOptions options;
  options.precision = *precision;
  for (StringRef word : ArrayRef<StringRef>(words).drop_front()) {
    auto [key, value] = word.split('=');
    bool ok = true;
    if (key == "dump")
      options.dump = value.str();
    else if (key == "only")
      ok = !value.getAsInteger(10, options.only);
    else if (key == "minimum")
      ok = !value.getAsInteger(10, options.minimum);
    else
      ok = false;
    if (!ok)
      return std::nullopt;
  }
  return options;
}

LogicalResult roundTrip(Operation *op, const RoundTripOptions &options) {
  auto func = cast<func::FuncOp>(op);
  unsigned index = 0;
  for (const Run &run : findRuns(func.getBody().front(), options)) {
    Reasons reasons;
    auto segment = buildSegment(run, options.precision, reasons);
    if (failed(segment))
      return run.front()->emitError() << "tosa-round-trip: " << reasons.all.front();
    if (!options.dump.empty() && failed(dumpFile(*segment, options.dump, index, func.getLoc())))
      return failure();
    if (options.only == (int64_t)index)
      return keepOnly(func, *segment);
    if (options.only < 0 && failed(replaceRun(run, *segment)))
      return failure();
    ++index;
  }
  if (options.only >= 0)
    return func.emitError() << "tosa-round-trip: there are " << index << " segments, none is number " << options.only;
  return success();
}

void registerTosaPasses() { PassRegistration<RoundTripPass>(); }

} // namespace tessera::tosa
