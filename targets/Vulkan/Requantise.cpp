#include "targets/Vulkan/Requantise.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tessera::vulkan {

namespace {

enum Operand : unsigned { Sum, Factor, Bias, NearFactor, NearBias, Middle };

double parameter(Operation *op, StringRef name) {
  return op->getAttrOfType<DictionaryAttr>("attrs")
      .getAs<FloatAttr>(name)
      .getValueAsDouble();
}

/// One channel. No expression holds two float operations that a compiler might
/// contract.
struct Channel {
  double factor, bias;
  float nearFactor, nearBias;
  float scale, low, high;
  bool biasFirst;

  float clamp(float v) const { return std::max(low, std::min(high, v)); }
  float exact(int64_t sum) const {
    double t = static_cast<double>(sum);
    if (biasFirst)
      t += bias;
    t *= factor;
    if (!biasFirst)
      t += bias;
    float x = static_cast<float>(t);
    x /= scale;
    return clamp(std::nearbyint(x));
  }
  float quotient(int64_t sum) const {
    float p = static_cast<float>(static_cast<int32_t>(sum));
    p *= nearFactor;
    p += nearBias;
    return clamp(p);
  }
  float near(int64_t sum) const { return std::nearbyint(quotient(sum)); }
};

struct Lists {
  SmallVector<int32_t> up, down;
};

/// The sums at the border below result `k` for which `near` is off.
void listBorder(const Channel &c, double k, Lists &lists, float &nearHalf) {
  double offset = c.biasFirst ? c.bias * c.factor : c.bias;
  double border = ((k - 0.5) * c.scale - offset) / c.factor;
  double step = c.factor / c.scale, b = std::fabs(offset / c.scale);
  double doubt = std::ldexp(std::fabs(k) + 2 * b, -21) + std::ldexp(1.0, -20);
  double below = std::floor(border), reach = doubt / step;
  if (border - below > reach && below + 1 - border > reach)
    return;
  constexpr double most = std::numeric_limits<int32_t>::max();
  double first = std::max(std::floor(border - reach) - 1, -most),
         last = std::min(std::ceil(border + reach) + 1, most);
  for (double sum = first; sum <= last; ++sum) {
    auto s = static_cast<int64_t>(sum);
    float right = c.exact(s), got = c.near(s);
    if (right == got)
      continue;
    (right > got ? lists.up : lists.down).push_back(static_cast<int32_t>(s));
    nearHalf = std::min(nearHalf, std::fabs(c.quotient(s) - got));
  }
}

} // namespace

bool isRequantise(Operation *op) {
  return op->getName().getStringRef() == "onnx.Custom" &&
         op->getAttrOfType<StringAttr>("domain") == "tessera" &&
         op->getAttrOfType<StringAttr>("op_type") == "Requantise";
}

bool readsRequantiseOperand(unsigned position) {
  return position == Sum || position == NearFactor || position == NearBias;
}

LogicalResult
findCorrections(Operation *op,
                llvm::function_ref<ElementsAttr(unsigned)> constant,
                Corrections &list, Reasons &reasons) {
  SmallVector<SmallVector<double>> numbers(Middle);
  for (unsigned i : {Factor, Bias, NearFactor, NearBias}) {
    ElementsAttr attr = constant(i);
    auto values = attr ? onnx::getFloats(attr) : std::nullopt;
    if (!values)
      return reasons.no()
             << "a requantisation whose parameters are no constants";
    numbers[i] = std::move(*values);
    if (static_cast<int64_t>(numbers[i].size()) > list.channels) {
      list.channels = numbers[i].size();
      list.like = i == Factor ? NearFactor : i == Bias ? NearBias : i;
    }
  }
  double zero = parameter(op, "zero"), low = parameter(op, "low") - zero,
         high = parameter(op, "high") - zero;
  if (high - low > 256)
    return reasons.no() << "a requantisation to more than 8 bits";
  SmallVector<Lists> all(list.channels);
  float nearHalf = 1;
  for (int64_t n = 0; n < list.channels; ++n) {
    auto at = [&](unsigned i) {
      return numbers[i][numbers[i].size() == 1 ? 0 : n];
    };
    Channel c{at(Factor),
              at(Bias),
              static_cast<float>(at(NearFactor)),
              static_cast<float>(at(NearBias)),
              static_cast<float>(parameter(op, "scale")),
              static_cast<float>(low),
              static_cast<float>(high),
              parameter(op, "bias_first") != 0};
    if (!(c.factor > 0))
      return reasons.no() << "a requantisation by a factor of " << c.factor;
    for (double k = low + 1; k <= high; ++k)
      listBorder(c, k, all[n], nearHalf);
    list.rows =
        std::max<int64_t>({list.rows, static_cast<int64_t>(all[n].up.size()),
                           static_cast<int64_t>(all[n].down.size())});
  }
  if (list.rows > 256)
    return reasons.no() << "a requantisation that float32 has " << list.rows
                        << " sums of a channel wrong in";
  list.nearHalf = nearHalf;
  list.sums.assign(list.rows * 2 * list.channels,
                   std::numeric_limits<int32_t>::min());
  for (int64_t n = 0; n < list.channels; ++n) {
    for (auto [i, sum] : llvm::enumerate(all[n].up))
      list.sums[(2 * i) * list.channels + n] = sum;
    for (auto [i, sum] : llvm::enumerate(all[n].down))
      list.sums[(2 * i + 1) * list.channels + n] = sum;
  }
  return success();
}

Value emitRequantise(Operation *op, Emitter &e, Value sum, Value factor,
                     Value bias, const Corrections &list,
                     llvm::function_ref<Value(Index row)> correction) {
  OpBuilder &b = e.b;
  Location loc = e.loc;
  Type ints = sum.getType(), floats = e.sameShape(sum, e.f32());
  double zero = parameter(op, "zero");
  auto splat = [&](double v) { return e.floatConst(floats, v); };
  Value s = arith::SIToFPOp::create(b, loc, floats, sum);
  s = e.addF(e.mulF(s, factor), bias);
  s = spirv::GLFClampOp::create(b, loc, floats, s,
                                splat(parameter(op, "low") - zero),
                                splat(parameter(op, "high") - zero));
  Value near = math::RoundEvenOp::create(b, loc, s);
  Value result = arith::FPToSIOp::create(b, loc, ints, near);
  if (list.rows) {
    Value distance =
        math::AbsFOp::create(b, loc, arith::SubFOp::create(b, loc, s, near));
    distance = e.across(distance, [&](Value x, Value y) -> Value {
      return spirv::GLFMaxOp::create(b, loc, x, y);
    });
    Value doubt =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGE, distance,
                              e.floatConst(e.f32(), list.nearHalf));
    Index end = Index(e.pick(doubt, e.value(list.rows), e.value(0)));
    Value one = e.intConst(ints, 1), none = e.intConst(ints, 0);
    auto found = [&](Index row) -> Value {
      Value equal = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, sum,
                                          correction(row));
      return arith::SelectOp::create(b, loc, equal, one, none);
    };
    result = e.loopBetween(
        0, end, list.rows, result, [&](Index row, ValueRange carried) {
          Value up =
              arith::AddIOp::create(b, loc, carried[0], found(e.mul(row, 2)));
          Value down =
              arith::SubIOp::create(b, loc, up, found(e.add(e.mul(row, 2), 1)));
          return SmallVector<Value>{down};
        })[0];
  }
  if (zero != 0)
    result = arith::AddIOp::create(b, loc, result, e.intConst(ints, zero));
  Type element = b.getIntegerType(cast<ShapedType>(op->getResult(0).getType())
                                      .getElementType()
                                      .getIntOrFloatBitWidth());
  return arith::TruncIOp::create(b, loc, e.sameShape(sum, element), result);
}

} // namespace tessera::vulkan
