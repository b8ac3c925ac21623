#include "targets/Vulkan/Lower.h"
#include "mlir/Conversion/ArithToSPIRV/ArithToSPIRV.h"
#include "mlir/Conversion/MathToSPIRV/MathToSPIRV.h"
#include "mlir/Conversion/SCFToSPIRV/SCFToSPIRV.h"
#include "mlir/Conversion/UBToSPIRV/UBToSPIRV.h"
#include "mlir/Conversion/VectorToSPIRV/VectorToSPIRV.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVDialect.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"
#include "mlir/Dialect/SPIRV/IR/TargetAndABI.h"
#include "mlir/Dialect/SPIRV/Transforms/Passes.h"
#include "mlir/Dialect/SPIRV/Transforms/SPIRVConversion.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/Dominance.h"
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
  spirv::Version version =
      dot ? spirv::Version::V_1_6 : spirv::Version::V_1_3;
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
  bool dot =
      main.walk([](spirv::SDotAccSatOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  module->setAttr(spirv::getTargetEnvAttrName(),
                  environment(module.getContext(), device, dot));
  rewriteFormulas(main);
  IRRewriter rewriter(module.getContext());
  DominanceInfo dominance(main);
  eliminateCommonSubExpressions(rewriter, dominance, main);
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
