#include "targets/Vulkan/Lower.h"
#include "mlir/Conversion/ArithToSPIRV/ArithToSPIRV.h"
#include "mlir/Conversion/MathToSPIRV/MathToSPIRV.h"
#include "mlir/Conversion/SCFToSPIRV/SCFToSPIRV.h"
#include "mlir/Conversion/UBToSPIRV/UBToSPIRV.h"
#include "mlir/Conversion/VectorToSPIRV/VectorToSPIRV.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVDialect.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"
#include "mlir/Dialect/SPIRV/IR/TargetAndABI.h"
#include "mlir/Dialect/SPIRV/Transforms/Passes.h"
#include "mlir/Dialect/SPIRV/Transforms/SPIRVConversion.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/SPIRV/Serialization.h"
#include "mlir/Transforms/CSE.h"
#include "targets/Vulkan/Words.h"

#include <cmath>

using namespace mlir;

namespace tessera::vulkan {

void loadDialects(MLIRContext *context) {
  context->getOrLoadDialect<spirv::SPIRVDialect>();
  context->getOrLoadDialect<ub::UBDialect>();
  // Running a pipeline loads what its passes need: once here, before threads
  // do.
  Kernel kernel;
  kernel.groups = kernel.local = {1, 1, 1};
  Device device;
  OwningOpRef<spirv::ModuleOp> module = makeModule(context);
  if (failed(lowerAndSerialise(*module, device, kernel)))
    llvm::report_fatal_error("an empty shader cannot be lowered");
}

// --- the module
// ----------------------------------------------------------------------

struct Capabilities {
  Feature feature;
  spirv::Capability capability;
};
static constexpr Capabilities capabilities[] = {
    {Feature::Float16, spirv::Capability::Float16},
    {Feature::Float64, spirv::Capability::Float64},
    {Feature::Int8, spirv::Capability::Int8},
    {Feature::Int16, spirv::Capability::Int16},
    {Feature::Int64, spirv::Capability::Int64},
    {Feature::Storage8, spirv::Capability::StorageBuffer8BitAccess},
    {Feature::Storage16, spirv::Capability::StorageBuffer16BitAccess},
    {Feature::DotProduct, spirv::Capability::DotProduct},
    {Feature::DotProduct, spirv::Capability::DotProductInput4x8BitPacked},
};

/// MLIR wants SPIR-V 1.6 for dot products, where the extension is part of the
/// core; `Words.h` makes the words 1.3 again.
static spirv::TargetEnvAttr environment(MLIRContext *context,
                                        const Device &device, bool dot) {
  SmallVector<spirv::Capability> all = {spirv::Capability::Shader};
  for (const Capabilities &c : capabilities)
    if (device.has(c.feature) && (dot || c.feature != Feature::DotProduct))
      all.push_back(c.capability);
  SmallVector<spirv::Extension> extensions = {
      spirv::Extension::SPV_KHR_storage_buffer_storage_class,
      spirv::Extension::SPV_KHR_16bit_storage,
      spirv::Extension::SPV_KHR_8bit_storage,
      spirv::Extension::SPV_KHR_integer_dot_product};
  spirv::Version version = dot ? spirv::Version::V_1_6 : spirv::Version::V_1_3;
  return spirv::TargetEnvAttr::get(
      spirv::VerCapExtAttr::get(version, all, extensions, context),
      spirv::getDefaultResourceLimits(context), spirv::ClientAPI::Vulkan);
}

OwningOpRef<spirv::ModuleOp> makeModule(MLIRContext *context) {
  OpBuilder b(context);
  Location loc = UnknownLoc::get(context);
  auto module = spirv::ModuleOp::create(b, loc, spirv::AddressingModel::Logical,
                                        spirv::MemoryModel::GLSL450);
  b.setInsertionPointToEnd(module.getBody());
  auto main = spirv::FuncOp::create(b, loc, "main", b.getFunctionType({}, {}));
  b.setInsertionPointToStart(main.addEntryBlock());
  spirv::ReturnOp::create(b, loc);
  return module;
}

spirv::FuncOp mainOf(spirv::ModuleOp module) {
  return *module.getOps<spirv::FuncOp>().begin();
}

// --- to spirv
// ------------------------------------------------------------------------

/// llvm.fptosi.sat and llvm.fptoui.sat: saturating, NaN to 0. Compares decide
/// what the conversion is not defined for; it gets 0 there.
static Value saturate(IRRewriter &r, Location loc, Value x, Type type,
                      bool isUnsigned) {
  Type scalar = getElementTypeOrSelf(type), from = x.getType();
  unsigned bits = scalar.getIntOrFloatBitWidth();
  auto number = [&](double v) -> Value {
    TypedAttr attr = r.getFloatAttr(getElementTypeOrSelf(from), v);
    if (auto vector = dyn_cast<VectorType>(from))
      attr = DenseElementsAttr::get(vector, Attribute(attr));
    return arith::ConstantOp::create(r, loc, attr);
  };
  auto integer = [&](const llvm::APInt &v) -> Value {
    TypedAttr attr = r.getIntegerAttr(scalar, v);
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, Attribute(attr));
    return arith::ConstantOp::create(r, loc, attr);
  };
  double limit = std::ldexp(1.0, isUnsigned ? bits : bits - 1);
  auto compare = [&](arith::CmpFPredicate p, double v) -> Value {
    return arith::CmpFOp::create(r, loc, p, x, number(v));
  };
  Value high = compare(arith::CmpFPredicate::OGE, limit);
  Value low = compare(isUnsigned ? arith::CmpFPredicate::OLE
                                 : arith::CmpFPredicate::OLT,
                      isUnsigned ? -1.0 : -limit);
  Value nan = arith::CmpFOp::create(r, loc, arith::CmpFPredicate::UNO, x, x);
  Value out = arith::OrIOp::create(
      r, loc, arith::OrIOp::create(r, loc, high, low), nan);
  Value safe = arith::SelectOp::create(r, loc, out, number(0), x);
  Value v = isUnsigned ? Value(arith::FPToUIOp::create(r, loc, type, safe))
                       : Value(arith::FPToSIOp::create(r, loc, type, safe));
  using llvm::APInt;
  v = arith::SelectOp::create(r, loc, high,
                              integer(isUnsigned
                                          ? APInt::getMaxValue(bits)
                                          : APInt::getSignedMaxValue(bits)),
                              v);
  return arith::SelectOp::create(
      r, loc, low,
      integer(isUnsigned ? APInt(bits, 0) : APInt::getSignedMinValue(bits)), v);
}

/// The number in all lanes of a float constant.
static std::optional<llvm::APFloat> numberOf(Value v) {
  Attribute attr;
  if (!matchPattern(v, m_Constant(&attr)))
    return std::nullopt;
  if (auto dense = dyn_cast<SplatElementsAttr>(attr))
    return dense.getSplatValue<llvm::APFloat>();
  if (auto number = dyn_cast<FloatAttr>(attr))
    return number.getValue();
  return std::nullopt;
}

/// The greater or the lesser of `x` and a number that is no NaN: one comparison
/// that a NaN fails, where the general form has three. -0 is below 0.
static void boundBy(IRRewriter &r, Operation *op, Value x, Value bound,
                    const llvm::APFloat &number) {
  bool most = isa<arith::MinimumFOp>(op);
  bool ties = number.isZero() && number.isNegative() == most;
  auto predicate =
      most ? (ties ? arith::CmpFPredicate::OGE : arith::CmpFPredicate::OGT)
           : (ties ? arith::CmpFPredicate::OLE : arith::CmpFPredicate::OLT);
  Value beyond = arith::CmpFOp::create(r, op->getLoc(), predicate, x, bound);
  r.replaceOpWithNewOp<arith::SelectOp>(op, beyond, bound, x);
}

/// What the CPU's formulas use and no pattern knows.
static void rewriteFormulas(spirv::FuncOp main) {
  IRRewriter r(main.getContext());
  main.walk([&](Operation *op) {
    r.setInsertionPoint(op);
    Location loc = op->getLoc();
    if (auto fma = dyn_cast<LLVM::FMAOp>(op)) {
      r.replaceOpWithNewOp<spirv::GLFmaOp>(op, fma.getType(), fma.getA(),
                                           fma.getB(), fma.getC());
    } else if (auto call = dyn_cast<LLVM::CallIntrinsicOp>(op)) {
      bool isUnsigned = call.getIntrin() == "llvm.fptoui.sat";
      if (isUnsigned || call.getIntrin() == "llvm.fptosi.sat")
        r.replaceOp(op, saturate(r, loc, op->getOperand(0),
                                 op->getResult(0).getType(), isUnsigned));
    } else if (isa<arith::MaximumFOp, arith::MinimumFOp>(op)) {
      for (unsigned i = 2; i-- > 0;)
        if (auto number = numberOf(op->getOperand(i));
            number && !number->isNaN()) {
          boundBy(r, op, op->getOperand(1 - i), op->getOperand(i), *number);
          break;
        }
    } else if (isa<math::TruncOp>(op)) {
      Value x = op->getOperand(0);
      Value zero =
          arith::ConstantOp::create(r, loc, r.getZeroAttr(x.getType()));
      Value negative =
          arith::CmpFOp::create(r, loc, arith::CmpFPredicate::OLT, x, zero);
      Value up = math::CeilOp::create(r, loc, x),
            down = math::FloorOp::create(r, loc, x);
      r.replaceOpWithNewOp<arith::SelectOp>(op, negative, up, down);
    }
  });
}

/// The result of a loop by an instruction of its own: the serialiser does not
/// find it where a phi ahead of the loop names it.
static Value named(IRRewriter &r, Location loc, Value v) {
  if (!v.getDefiningOp<spirv::LoopOp>())
    return v;
  if (auto vector = dyn_cast<VectorType>(v.getType())) {
    SmallVector<int32_t> lanes =
        llvm::to_vector(llvm::seq<int32_t>(0, vector.getNumElements()));
    return spirv::VectorShuffleOp::create(r, loc, vector, v, v,
                                          r.getI32ArrayAttr(lanes));
  }
  Value pair = spirv::CompositeConstructOp::create(
      r, loc, VectorType::get({2}, v.getType()), ValueRange{v, v});
  return spirv::CompositeExtractOp::create(r, loc, pair, ArrayRef<int32_t>{0});
}

/// Loops as SPIR-V has them, their results those of the header: stock patterns
/// store them in a variable each trip.
static void lowerLoop(IRRewriter &r, scf::ForOp loop) {
  Location loc = loop.getLoc();
  r.setInsertionPoint(loop);
  auto op = spirv::LoopOp::create(r, loc, loop.getResultTypes(),
                                  spirv::LoopControl::None);
  Region &region = op.getBody();
  Block *entry = r.createBlock(&region), *header = r.createBlock(&region);
  Block *body = loop.getBody();
  SmallVector<Value> first{loop.getLowerBound()};
  llvm::append_range(first, loop.getInitArgs());
  r.setInsertionPointToEnd(entry);
  for (Value v : first)
    header->addArgument(v.getType(), loc);
  spirv::BranchOp::create(r, loc, header, first);
  auto yield = cast<scf::YieldOp>(body->getTerminator());
  SmallVector<Value> next(yield.getOperands());
  r.eraseOp(yield);
  for (Value &v : next) // an argument that was passed on unchanged
    if (auto arg = dyn_cast<BlockArgument>(v); arg && arg.getOwner() == body)
      v = header->getArgument(arg.getArgNumber());
  Block *start = r.createBlock(&region);
  r.inlineBlockBefore(body, start, start->end(), header->getArguments());
  Block *last = r.createBlock(&region), *merge = r.createBlock(&region);
  r.setInsertionPointToEnd(start);
  for (Value &v : next)
    v = named(r, loc, v);
  spirv::BranchOp::create(r, loc, last);
  r.setInsertionPointToEnd(last);
  Value index = header->getArgument(0);
  next.insert(next.begin(), spirv::IAddOp::create(r, loc, index.getType(),
                                                  index, loop.getStep()));
  spirv::BranchOp::create(r, loc, header, next);
  r.setInsertionPointToEnd(header);
  Value more = spirv::SLessThanOp::create(r, loc, r.getI1Type(), index,
                                          loop.getUpperBound());
  spirv::BranchConditionalOp::create(r, loc, more, start, ValueRange(), merge,
                                     ValueRange());
  r.setInsertionPointToEnd(merge);
  spirv::MergeOp::create(r, loc, header->getArguments().drop_front());
  r.replaceOp(loop, op.getResults());
}

static void lowerLoops(spirv::FuncOp main) {
  IRRewriter r(main.getContext());
  SmallVector<scf::ForOp> loops;
  main.walk([&](scf::ForOp loop) { loops.push_back(loop); });
  for (scf::ForOp loop : loops)
    lowerLoop(r, loop);
}

/// Drivers may re-associate and contract what is not marked.
static void keepOrder(spirv::FuncOp main) {
  auto mark = UnitAttr::get(main.getContext());
  main.walk([&](Operation *op) {
    if (isa<spirv::FAddOp, spirv::FSubOp, spirv::FMulOp, spirv::FDivOp,
            spirv::FRemOp, spirv::FNegateOp, spirv::VectorTimesScalarOp>(op))
      op->setAttr("no_contraction", mark);
  });
}

static LogicalResult convert(spirv::ModuleOp module) {
  MLIRContext *context = module.getContext();
  spirv::TargetEnvAttr env = spirv::lookupTargetEnvOrDefault(module);
  std::unique_ptr<SPIRVConversionTarget> target =
      SPIRVConversionTarget::get(env);
  SPIRVConversionOptions options;
  options.use64bitIndex = false;
  // A narrow integer that the device lacks would become 32 bits wide, and wrap
  // elsewhere.
  options.emulateLT32BitScalarTypes = false;
  SPIRVTypeConverter types(env, options);
  ScfToSPIRVContext loops;
  RewritePatternSet patterns(context);
  populateSCFToSPIRVPatterns(types, loops, patterns);
  arith::populateArithToSPIRVPatterns(types, patterns);
  populateMathToSPIRVPatterns(types, patterns);
  populateVectorToSPIRVPatterns(types, patterns);
  ub::populateUBToSPIRVConversionPatterns(types, patterns);
  return applyFullConversion(mainOf(module), *target, std::move(patterns));
}

static void addEntryPoint(spirv::ModuleOp module, const Kernel &kernel) {
  OpBuilder b(module.getContext());
  Location loc = module.getLoc();
  b.setInsertionPointToEnd(module.getBody());
  SmallVector<Attribute> interface;
  for (auto variable : module.getOps<spirv::GlobalVariableOp>())
    if (variable.storageClass() == spirv::StorageClass::Input)
      interface.push_back(FlatSymbolRefAttr::get(variable));
  spirv::EntryPointOp::create(b, loc, spirv::ExecutionModel::GLCompute,
                              mainOf(module), interface);
  spirv::ExecutionModeOp::create(
      b, loc, mainOf(module), spirv::ExecutionMode::LocalSize,
      ArrayRef<int32_t>{static_cast<int32_t>(kernel.local[0]),
                        static_cast<int32_t>(kernel.local[1]),
                        static_cast<int32_t>(kernel.local[2])});
}

LogicalResult lowerAndSerialise(spirv::ModuleOp module, const Device &device,
                                Kernel &kernel) {
  spirv::FuncOp main = mainOf(module);
  // Types that do not belong together: what they become is not all verified.
  auto isWrong = main.getBody().walk([](Operation *op) {
    return WalkResult(verify(op, /*verifyRecursively=*/false));
  });
  if (isWrong.wasInterrupted())
    return failure();
  bool dot =
      main.walk([](spirv::SDotAccSatOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  module->setAttr(spirv::getTargetEnvAttrName(),
                  environment(module.getContext(), device, dot));
  rewriteFormulas(main);
  IRRewriter rewriter(module.getContext());
  DominanceInfo dominance(main);
  eliminateCommonSubExpressions(rewriter, dominance, main);
  lowerLoops(main);
  if (failed(convert(module)))
    return failure();
  keepOrder(mainOf(module));
  addEntryPoint(module, kernel);
  PassManager passes(module.getContext(), spirv::ModuleOp::getOperationName());
  passes.addPass(spirv::createSPIRVUpdateVCEPass());
  if (failed(passes.run(module)))
    return failure();
  SmallVector<uint32_t, 0> words;
  spirv::SerializationOptions options;
  options.emitSymbolName = false;
  options.emitDebugInfo = false;
  if (failed(spirv::serialize(module, words, options)))
    return failure();
  kernel.words.assign(words.begin(), words.end());
  makeVersion13(kernel.words);
  kernel.features.clear();
  for (const Capabilities &c : capabilities)
    for (spirv::Capability used : module.getVceTriple()->getCapabilities())
      if (used == c.capability &&
          !llvm::is_contained(kernel.features, c.feature))
        kernel.features.push_back(c.feature);
  return success();
}

} // namespace tessera::vulkan
