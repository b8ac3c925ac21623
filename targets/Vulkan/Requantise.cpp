#include "targets/Vulkan/Requantise.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"

#include <cmath>
#include <cstring>
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
  double step = c.factor / c.scale, b = std::fabs(offset) / c.scale;
  double doubt = (std::fabs(k) + 2 * b) * 0x1p-21 + 0x1p-20;
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
  int64_t header = list.headerRows();
  // A size that other lists have as well: the shader depends on it.
  int64_t room = std::max<int64_t>(8, llvm::PowerOf2Ceil(list.rows));
  list.sums.assign((header + 2 * room) * list.channels,
                   std::numeric_limits<int32_t>::min());
  list.sums[0] = static_cast<int32_t>(2 * list.rows);
  std::memcpy(&list.sums[1], &nearHalf, 4);
  for (int64_t n = 0; n < list.channels; ++n) {
    for (auto [i, sum] : llvm::enumerate(all[n].up))
      list.sums[(header + 2 * i) * list.channels + n] = sum;
    for (auto [i, sum] : llvm::enumerate(all[n].down))
      list.sums[(header + 2 * i + 1) * list.channels + n] = sum;
  }
  return success();
}

/// Looks the sums up, if one of `distances` says that it may be listed.
static SmallVector<Value> correct(Emitter &e, const RequantisedSums &tile,
                                  const Corrections &list,
                                  ArrayRef<Value> distances,
                                  ArrayRef<Value> results) {
  OpBuilder &b = e.b;
  Location loc = e.loc;
  auto greater = [&](Value x, Value y) -> Value {
    return spirv::GLFMaxOp::create(b, loc, x, y);
  };
  Value most = distances[0];
  for (Value d : distances.drop_front())
    most = greater(most, d);
  Value limit = arith::BitcastOp::create(b, loc, e.f32(), tile.header.second);
  Value doubt = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGE,
                                      e.across(most, greater), limit);
  Index end = Index(e.pick(doubt, tile.header.first, e.value(0)));
  Type ints = results[0].getType();
  Value none = e.intConst(ints, 0);
  size_t columns = tile.factors.size();
  return e.loopBetween(
      0, end, 512, results, [&](Index row, ValueRange carried) {
        SmallVector<Value> next(carried.begin(), carried.end());
        // Rows to add one for, and to take one from, by turns.
        Value by = e.value(e.sub(1, e.mul(e.rem(row, 2), 2)));
        if (isa<VectorType>(ints))
          by = e.quadSplat(by);
        for (size_t j = 0; j < columns; ++j) {
          Value listed = tile.listed(e.add(row, list.headerRows()), j);
          for (size_t k = j; k < next.size(); k += columns) {
            Value equal = arith::CmpIOp::create(
                b, loc, arith::CmpIPredicate::eq, tile.sums[k], listed);
            next[k] = arith::AddIOp::create(
                b, loc, next[k],
                arith::SelectOp::create(b, loc, equal, by, none));
          }
        }
        return next;
      });
}

SmallVector<Value> emitRequantise(Operation *op, Emitter &e,
                                  const RequantisedSums &tile,
                                  const Corrections &list) {
  OpBuilder &b = e.b;
  Location loc = e.loc;
  Type ints = tile.sums[0].getType(),
       floats = e.sameShape(tile.sums[0], e.f32());
  double zero = parameter(op, "zero");
  Value low = e.floatConst(floats, parameter(op, "low") - zero),
        high = e.floatConst(floats, parameter(op, "high") - zero);
  SmallVector<Value> results, distances;
  for (auto [k, sum] : llvm::enumerate(tile.sums)) {
    size_t j = k % tile.factors.size();
    Value s = arith::SIToFPOp::create(b, loc, floats, sum);
    s = e.addF(e.mulF(s, tile.factors[j]), tile.biases[j]);
    s = spirv::GLFClampOp::create(b, loc, floats, s, low, high);
    Value near = math::RoundEvenOp::create(b, loc, s);
    results.push_back(arith::FPToSIOp::create(b, loc, ints, near));
    distances.push_back(
        math::AbsFOp::create(b, loc, arith::SubFOp::create(b, loc, s, near)));
  }
  results = correct(e, tile, list, distances, results);
  Type element = b.getIntegerType(cast<ShapedType>(op->getResult(0).getType())
                                      .getElementType()
                                      .getIntOrFloatBitWidth());
  for (Value &v : results) {
    if (zero != 0)
      v = arith::AddIOp::create(b, loc, v, e.intConst(ints, zero));
    v = arith::TruncIOp::create(b, loc, e.sameShape(v, element), v);
  }
  return results;
}

} // namespace tessera::vulkan
