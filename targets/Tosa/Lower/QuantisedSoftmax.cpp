// Softmax and LogSoftmax of integers, by way of the logarithm:
//
//   log y = x - max - log(sum of e^(x - max)),   y = e^(log y)
//
// x and max are exact in 32 bits. The exponentials that are summed and the
// logarithm of the sum come from tables of 513 entries that TABLE interpolates;
// the last e^ is left to the quantiser behind it, whose table needs to be right
// only where the result is neither its least nor its greatest integer. So a
// relative error is what adds up, however small the numbers are, and no
// quotient is needed.
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "targets/Tosa/Lower/Quantised.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

/// 513 entries over [low, high], which the 65,536 positions of int16 divide.
struct Curve {
  double low, high;
  double unit; ///< what a step of an entry means
  HostTensor entries;

  double step() const { return (high - low) / 65536; }
  double at(double v) const { return (v - low) / step() - 32768; } ///< the position of v
};

template <typename Fn> Curve curve(Lowerer &l, double low, double high, double unit, Fn f) {
  Curve c{low, high, unit, HostTensor(l.b.getI16Type(), {513})};
  c.entries.mutableData();
  for (int i = 0; i < 513; ++i)
    c.entries.setInteger(i, std::llround(f(low + (high - low) * i / 512) / unit));
  return c;
}

/// What TABLE makes of a curve between two entries.
double interpolated(const Curve &c, int entry, double part) {
  double base = (double)c.entries.integer(entry);
  return c.unit * (base + part * ((double)c.entries.integer(entry + 1) - base));
}

/// TABLE of an int16 tensor: 23 bits, of which one means unit / 128.
Value look(Lowerer &l, Value position, const Curve &c) {
  return l.op("table", {position, l.constant(c.entries)}, Lowerer::typeOf(position).clone(l.b.getI32Type()));
}

/// REDUCE_MAX of 32 bits, which small devices have not: halves that may overlap
/// are compared until one is left.
Value greatest(Lowerer &l, Value x, int64_t axis) {
  while (Lowerer::shapeOf(x)[axis] > 1) {
    SmallVector<int64_t> from(Lowerer::rankOf(x), 0), dims(Lowerer::shapeOf(x));
    int64_t extent = dims[axis];
    dims[axis] = (extent + 1) / 2;
    Value front = l.slice(x, from, dims);
    from[axis] = extent - dims[axis];
    x = l.binary("maximum", front, l.slice(x, from, dims));
  }
  return x;
}

/// The logits as 32-bit integers of one step, which is a power of two below
/// theirs, fine enough for the logarithm of the sum.
struct Logits {
  Value x, most; ///< `most`: the greatest along the axis
  double step;
  int64_t bound;
  double error; ///< of a difference of two
};
constexpr double fineStep = 1.0 / (1 << 17);

std::optional<Logits> fineLogits(Lowerer &l, Value x, int64_t axis, const Scaled &m) {
  double widest = *std::max_element(m.scale.begin(), m.scale.end());
  Logits g{{}, {}, widest, m.bound, 2 * m.error};
  for (; g.step > fineStep && g.bound < int64_t(1) << 28; g.step /= 2)
    g.bound *= 2;
  for (; g.bound >= int64_t(1) << 29; g.step *= 2) {
    g.bound = g.bound / 2 + 1;
    g.error += 2 * g.step;
  }
  unsigned bits = Lowerer::typeOf(x).getElementTypeBitWidth();
  SmallVector<double> factors;
  for (double s : m.scale)
    factors.push_back(s / g.step);
  if (m.scale.size() > 1) // no powers of two: RESCALE rounds, and its multipliers are
    g.error += g.step + 2 * widest * (double)m.bound / (bits == 48 ? 1 << 14 : 1 << 30);
  auto fine = [&](Value v) { return rescale(l, v, factors, bits == 8 ? m.zeroPoint : 0, 0, l.b.getI32Type()); };
  if (!(g.x = fine(x)))
    return std::nullopt;
  bool small = bits <= 16 && m.scale.size() == 1;
  g.most = small ? fine(l.reduce("reduce_max", x, axis)) : greatest(l, g.x, axis);
  return g;
}

/// The sum over an axis of e^(x - max), as an integer.
struct Sum {
  Value x;
  double unit;  ///< what one means
  double error; ///< relative
};

/// How far `n` exponentials of which one is of 0 may be off their sum: `exact`
/// where no number falls between two entries, `fine` is the rest of the
/// entries, or null.
double errorOfSum(const Curve &c, const Curve *fine, bool exact, int64_t n) {
  double worst = 0, spread = exact ? 0 : std::expm1(c.step() / 2);
  auto off = [&](double v) {
    double position = (c.at(v) + 32768) / 128;
    int entry = std::min((int)position, 511);
    double got = interpolated(c, entry, position - entry) + (fine ? interpolated(*fine, entry, position - entry) : 0);
    return std::abs(got - std::exp(v)) + spread * std::exp(v);
  };
  double top = off(0);
  for (int i = 0; i < 512 * 8; ++i)
    if (double v = c.low + (c.high - c.low) * i / (512 * 8); v < 0 && (!exact || i % 8 == 0))
      worst = std::max(worst, (top + (double)(n - 1) * off(v)) / (1 + (double)(n - 1) * std::exp(v)));
  return std::max(worst, top);
}

/// `exact`: all differences of logits are multiples of `apart`, at most 255.
std::optional<Sum> sumOfExponentials(Lowerer &l, const Logits &g, int64_t axis, bool exact, double apart) {
  int64_t n = Lowerer::shapeOf(g.x)[axis];
  double reach = std::min(2 * (double)g.bound * g.step, std::log((double)n) + 11);
  double low = exact ? -255 * apart : -reach, high = exact ? apart : reach / 32;
  if (2 * (double)g.bound * g.step * 65536 / (high - low) >= rescaleLimit) {
    l.no() << "logits are up to " << 2 * (double)g.bound * g.step
           << " apart, more than 29 bits of the table's positions";
    return std::nullopt;
  }
  double chord = exact ? 0 : (high - low) / 512; // lies above e^v by up to chord^2 / 8 of it
  auto value = [=](double v) { return std::exp(v) * (1 - chord * chord / 16); };
  Curve c = curve(l, low, high, std::exp(high) / 32767, value);
  Curve fine = curve(l, low, high, c.unit / 128,
                     [&](double v) { return value(v) - c.unit * (double)std::llround(value(v) / c.unit); });
  // p = x - (max - the position of 0)
  double zero = std::nearbyint((c.at(0)) * c.step() / g.step);
  Value p = rescale(l, l.sub(g.x, l.add(g.most, -zero)), g.step / c.step(), 0, 0, l.b.getI16Type());
  if (!p)
    return std::nullopt;
  Sum s{look(l, p, c), c.unit / 128, errorOfSum(c, nullptr, exact, n)};
  int64_t shift = 0;
  while ((n << (22 - shift)) >= int64_t(1) << 30)
    ++shift;
  auto sumOf = [&](Value v, int64_t shift) -> Value {
    if (shift)
      v = rescale(l, v, std::ldexp(1, -(int)shift), 0, 0, l.b.getI32Type());
    return v ? l.reduce("reduce_sum", v, axis) : v;
  };
  s.x = sumOf(s.x, shift);
  s.unit = std::ldexp(s.unit, (int)shift);
  if (s.error > 1.0 / 8192) { // the entries' own rounding, summed apart
    Value rest = sumOf(look(l, p, fine), 0);
    rest = rescale(l, rest, fine.unit / 128 / s.unit, 0, 0, l.b.getI32Type());
    s.x = l.add(s.x, rest);
    s.error = errorOfSum(c, &fine, exact, n);
  }
  if (!exact && reach < 2 * (double)g.bound * g.step) // what lies below counts as the lowest entry
    s.error += (double)n * std::exp(low);
  s.error += (shift ? (double)n * s.unit / 2 : 0) + s.unit;
  return s;
}

/// log v for v >= 1: 0 where v is less, log 4 where it is more than 4.
double logTo4(double v) { return std::log(std::clamp(v, 1.0, 4.0)); }

/// log(sum) in steps of `step`, as a sum over the powers of 4 that it may
/// contain. `error` takes account of it.
Value logarithm(Lowerer &l, const Sum &s, int64_t n, double step, double &error) {
  Value total;
  double interior = 0;
  Curve c = curve(l, 1 - 3.0 / 510, 4 + 3.0 / 510, std::log(4) / 32767, logTo4);
  for (int i = 0; i < 512 * 8; ++i) {
    double v = c.low + (c.high - c.low) * i / (512 * 8);
    interior = std::max(interior, std::abs(interpolated(c, i / 8, i % 8 / 8.0) - logTo4(v)));
  }
  for (double base = 1; base < (double)n * (1 + s.error); base *= 4) {
    double middle = std::nearbyint((c.low + c.high) / 2 * base / s.unit);
    Value p = rescale(l, l.add(s.x, -middle), s.unit / base / c.step(), 0, 0, l.b.getI16Type());
    Value y = p ? rescale(l, look(l, p, c), c.unit / 128 / step, 0, 0, l.b.getI32Type()) : Value();
    if (!y)
      return {};
    total = total ? l.add(total, y) : y;
    error += step / 2;
  }
  error += s.error * (1 + s.error) + interior + c.step() * 0.51;
  return total;
}

LogicalResult lowerSoftmax(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  auto it = l.scaled.find(in);
  if (it == l.scaled.end() || !it->second.plain())
    return l.no() << "its input is not quantised, or still to be bounded or tabulated";
  const Scaled &m = it->second;
  int64_t rank = Lowerer::rankOf(in), axis = onnx::getInt(op, "axis", -1);
  axis += axis < 0 ? rank : 0;
  Perm perm = channelsAtEnd(l, in, m);
  int64_t at = inversePerm(perm)[axis], n = Lowerer::shapeOf(in)[axis];
  constexpr int64_t longest = 16384; // positions of the sum are within 29 bits
  if (n > longest)
    return l.no() << n << " exponentials are summed, limit " << longest;
  auto g = fineLogits(l, l.get(in, perm), at, m);
  if (!g)
    return failure();
  bool exact = bitsOf(l, in) == 8 && m.scale.size() == 1;
  auto sum = sumOfExponentials(l, *g, at, exact, m.scale[0]);
  if (!sum)
    return failure();
  Scaled meaning;
  meaning.scale = {g->step};
  meaning.error = g->error + g->step; // of the position of 0
  meaning.bound = 2 * g->bound + (int64_t)(std::log((double)n + 1) / g->step) + 1;
  Value taken = g->most;
  bool log = op->getName().stripDialect() == "LogSoftmax";
  if (n > 1) {
    Value y = logarithm(l, *sum, n, g->step, meaning.error);
    if (!y)
      return failure();
    taken = l.add(taken, y);
  }
  if (!log) { // the middle of what matters becomes 0, so that the quantiser's
              // table has no idle half
    auto q = readersQuantisation(result, l);
    double steps = std::nearbyint((q ? std::max(-std::log(q->scale / 2) / 2, 0.0) : 4) / g->step);
    taken = l.add(taken, -steps);
    meaning.offset = steps * g->step;
    meaning.bound += (int64_t)steps;
    meaning.pending.push_back(op);
  }
  l.set(result, l.sub(g->x, taken), perm);
  l.scaled[result] = meaning;
  return success();
}

RegisterLowering softmax({"Softmax", "LogSoftmax"}, Domain::Integer, Elements::Float, {"axis"}, lowerSoftmax);

} // namespace
} // namespace tessera::tosa
