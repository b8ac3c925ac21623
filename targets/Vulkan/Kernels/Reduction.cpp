// Reduce* and global pooling.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/Kernels/Window.h"
#include "targets/Cpu/Math.h"
#include "targets/Vulkan/Kernels/Boxes.h"
#include "targets/Vulkan/Kernels/Rows.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

/// The axes that the root reduces, or none with a reason.
std::optional<SmallVector<int64_t>> reducedAxes(tsr::DispatchOp op, Emitter &e,
                                                const Buffer &in) {
  Operation *root = op.getRootOp();
  SmallVector<int64_t> axes;
  if (root->getName().getStringRef().starts_with("onnx.Global")) {
    for (int64_t k = 2; k < in.rank(); ++k)
      axes.push_back(k);
    return axes;
  }
  Value operand = onnx::getOptionalOperand(root, 1);
  auto type = operand ? dyn_cast<RankedTensorType>(operand.getType()) : nullptr;
  bool isEmpty = type && type.hasStaticShape() && type.getNumElements() == 0;
  if (operand && !isEmpty) {
    ElementsAttr value = rootConstant(op, 1);
    auto ints = value ? onnx::getInts(value) : std::nullopt;
    if (!ints) {
      e.reasons.no() << "a reduction over axes that only the run knows";
      return std::nullopt;
    }
    axes = *ints;
  } else {
    axes = onnx::getInts(root, "axes");
  }
  if (axes.empty()) {
    if (onnx::getInt(root, "noop_with_empty_axes", 0)) {
      e.reasons.no() << "a reduction over no axes";
      return std::nullopt;
    }
    for (int64_t k = 0; k < in.rank(); ++k)
      axes.push_back(k);
  }
  for (int64_t &axis : axes)
    axis += axis < 0 ? in.rank() : 0;
  return axes;
}

/// Strides of the result along the axes of the operand; 0 along those reduced.
SmallVector<int64_t> resultStrides(const Buffer &in, const Buffer &out,
                                   ArrayRef<int64_t> axes) {
  SmallVector<int64_t> strides(in.rank(), 0);
  bool kept = in.rank() == out.rank();
  for (unsigned axis = 0, to = 0; axis < in.rank(); ++axis) {
    if (!llvm::is_contained(axes, static_cast<int64_t>(axis)))
      strides[axis] = out.strides[kept ? axis : to++];
  }
  return strides;
}

class Reduction {
public:
  Reduction(tsr::DispatchOp op, Emitter &e)
      : op(op), e(e), kind(op.getRootOp()->getName().stripDialect()) {}
  LogicalResult emit();

private:
  Value compute(Rows &rows);
  Value sum(Rows &rows, llvm::function_ref<Value(Value)> map);

  tsr::DispatchOp op;
  Emitter &e;
  StringRef kind;
  Type scalar; ///< value type
  bool isUnsigned = false;
};

Value Reduction::sum(Rows &rows, llvm::function_ref<Value(Value)> map) {
  bool isFloat = isa<FloatType>(scalar);
  Value zero = isFloat ? e.floatConst(scalar, 0) : e.intConst(scalar, 0);
  return rows.reduce(
      zero, [&](Value x, Index) { return map(x); },
      [&](Value a, Value b) -> Value {
        if (isFloat)
          return e.addF(a, b);
        return arith::AddIOp::create(e.b, e.loc, a, b);
      });
}

Value Reduction::compute(Rows &rows) {
  bool isFloat = isa<FloatType>(scalar);
  auto same = [](Value x) { return x; };
  auto product = [&](Value a, Value b) -> Value {
    if (isFloat)
      return e.mulF(a, b);
    return arith::MulIOp::create(e.b, e.loc, a, b);
  };
  auto larger = [&](Value a, Value b) -> Value {
    if (isFloat)
      return e.maxF(a, b);
    if (isUnsigned)
      return arith::MaxUIOp::create(e.b, e.loc, a, b);
    return arith::MaxSIOp::create(e.b, e.loc, a, b);
  };
  auto smaller = [&](Value a, Value b) -> Value {
    if (isFloat)
      return e.minF(a, b);
    if (isUnsigned)
      return arith::MinUIOp::create(e.b, e.loc, a, b);
    return arith::MinSIOp::create(e.b, e.loc, a, b);
  };
  auto over = [&](Value init, Rows::Combine combine) {
    return rows.reduce(init, [](Value x, Index) { return x; }, combine);
  };
  if (kind == "ReduceMax" || kind == "GlobalMaxPool")
    return over(cpu::lowestOf(e, scalar, isUnsigned), larger);
  if (kind == "ReduceMin") {
    unsigned bits = scalar.getIntOrFloatBitWidth();
    Value greatest =
        isFloat ? e.floatConst(scalar, std::numeric_limits<double>::infinity())
                : e.intConst(scalar,
                             isUnsigned ? -1
                                        : static_cast<int64_t>(
                                              (uint64_t(1) << (bits - 1)) - 1));
    return over(greatest, smaller);
  }
  if (kind == "ReduceProd")
    return over(isFloat ? e.floatConst(scalar, 1) : e.intConst(scalar, 1),
                product);
  if (kind == "ReduceSumSquare")
    return sum(rows, [&](Value x) { return product(x, x); });
  if (kind == "ReduceSum")
    return sum(rows, same);
  if (kind == "ReduceL1")
    return sum(rows,
               [&](Value x) { return isFloat ? cpu::math::abs(e, x) : x; });
  if (kind == "ReduceMean" || kind == "GlobalAveragePool") {
    Value total = sum(rows, same);
    return e.divF(
        total, e.floatConst(total.getType(), static_cast<double>(rows.length)));
  }
  if (kind == "ReduceL2")
    return cpu::math::sqrt(e,
                           sum(rows, [&](Value x) { return product(x, x); }));
  if (kind == "ReduceLogSum")
    return cpu::math::log(e, sum(rows, same));
  // ReduceLogSumExp: by the greatest, unless that is infinite
  Value greatest = over(cpu::lowestOf(e, scalar, false), larger);
  Value infinite = cpu::math::isInf(e, greatest);
  Value base = e.pick(infinite, e.floatConst(greatest.getType(), 0), greatest);
  Value total = sum(rows, [&](Value x) {
    return cpu::math::exp(e, e.subF(x, rows.spread(base)));
  });
  return e.addF(cpu::math::log(e, total), base);
}

LogicalResult Reduction::emit() {
  Operation *root = op.getRootOp();
  Buffer *in = rootBuffer(op, e, 0), *out = e.out[0].get();
  if (!in)
    return e.reasons.no() << "an operand that is embedded";
  bool pooling = root->getName().getStringRef().starts_with("onnx.Global");
  auto axes = reducedAxes(op, e, *in);
  if (!axes)
    return failure();
  scalar = cpu::KernelEmitter::valueType(in->element);
  isUnsigned = cpu::KernelEmitter::isUnsigned(in->element);
  bool anyType = kind == "ReduceSum" || kind == "ReduceMax" ||
                 kind == "ReduceMin" || kind == "ReduceProd" ||
                 kind == "ReduceSumSquare";
  if (scalar.isInteger(1) || (!isa<FloatType>(scalar) && !anyType))
    return e.reasons.no() << kind << " of " << onnx::getTypeName(in->element);
  Fusion fusion(op, e);
  if (!pooling && failed(requireAlone(op, e)))
    return failure();
  if (in->count == 0)
    return e.reasons.no() << "a reduction of no elements";
  Rows rows(e, *in, *axes);
  SmallVector<int64_t> strides = resultStrides(*in, *out, *axes);
  bool fits = false;
  for (unsigned axis = 0; axis < in->rank(); ++axis)
    fits |= in->strides[axis] == 1 && strides[axis] == 1 &&
            in->dims[axis] % 4 == 0 && out->count % 4 == 0;
  rows.allowQuads = fits;
  LogicalResult result = success();
  bool vectors = fits;
  rows.forRows([&] {
    if (rows.mode == RowMode::Quad && vectors)
      out->useVectors();
    Value v = e.round(compute(rows), out->element);
    e.when(rows.isFirst(), [&] {
      if (pooling) { // may have an epilogue
        Point p{SmallVector<Index>(rows.at),
                rows.mode == RowMode::Quad ? rows.quadAxis : -1};
        result = fusion.store(v, p);
        return;
      }
      Index to = rows.offsetOf(strides, 0, rows.mode == RowMode::Quad);
      if (rows.mode == RowMode::Quad)
        e.storeQuad(*out, to, v);
      else
        e.store(*out, to, v);
    });
  });
  return result;
}

LogicalResult emitReduction(tsr::DispatchOp op, Emitter &e) {
  return Reduction(op, e).emit();
}
Register reduction({"onnx.ReduceSum", "onnx.ReduceMean", "onnx.ReduceProd",
                    "onnx.ReduceMax", "onnx.ReduceMin", "onnx.ReduceSumSquare",
                    "onnx.ReduceL1", "onnx.ReduceL2", "onnx.ReduceLogSum",
                    "onnx.ReduceLogSumExp", "onnx.GlobalMaxPool",
                    "onnx.GlobalAveragePool"},
                   emitReduction);

} // namespace
} // namespace tessera::vulkan
