// LayerNormalization and RMSNormalization of int8.
//
//   d = N x - sum(x)      N times what a number is above the mean: exact
//   z = sum((x - mean)^2) exact but for a fraction: x less the rounded mean is squared
//   y = d * R(z)          R(z) = 1 / (N sqrt(z / N + epsilon)), of tables
//
// A row of equal numbers has z = 0, else z is at least a half and at most N times
// 255^2 / 4: some powers of 4, of which each has a table.
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "targets/Tosa/Lower/Quantised.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

/// The rows of the operand, [outer, N], as integers less the zero point, and of each:
struct Rows {
  Value x;       ///< less `mean`
  Value rest;    ///< the sum of x; null: the mean is not taken off
  Value squares; ///< the sum of x^2
  int64_t n;
};

std::optional<Rows> rowsOf(Lowerer &l, Value x, int64_t zeroPoint, bool centre) {
  Rows rows{rescale(l, x, 1.0, zeroPoint, 0, l.b.getI32Type()), {}, {}, Lowerer::shapeOf(x)[1]};
  if (centre) {
    Value sum = l.reduce("reduce_sum", rows.x, 1);
    Value mean = rescale(l, sum, 1.0 / (double)rows.n, 0, 0, l.b.getI32Type());
    if (!mean)
      return std::nullopt;
    rows.x = l.sub(rows.x, mean);
    rows.rest = l.sub(sum, l.mul(mean, (double)rows.n));
  }
  rows.squares = l.reduce("reduce_sum", l.mul(rows.x, rows.x), 1);
  return rows;
}

/// z with `bits` of fraction for z below `limit`, some number above it elsewhere.
/// rest^2 / N is at most half of the squares, since integers vary at least as much as
/// their mean is off an integer.
Value variation(Lowerer &l, const Rows &rows, double limit, int bits) {
  auto atMost = [&](Value v, double bound) {
    return l.binary("minimum", v, l.scalarLike(v, std::min(std::floor(bound), 2147483647.0)));
  };
  Value squares = atMost(rows.squares, 2 * limit);
  Value z = rescale(l, squares, std::ldexp(1, bits), 0, 0, l.b.getI32Type());
  if (!rows.rest)
    return z;
  Value off = atMost(l.mul(rows.rest, rows.rest), limit * (double)rows.n);
  off = rescale(l, off, std::ldexp(1, bits) / (double)rows.n, 0, 0, l.b.getI32Type());
  return l.sub(z, off);
}

constexpr double least = 0.5; ///< that z can be, but for 0
constexpr int spare = 8;      ///< bits of fraction in which tables are added

/// How far results may be off where z is in some range.
struct Part {
  double relative;
  double most; ///< that they can be there
};

/// The table of `f` over [low, high], constant outside; and how far it is off, relative
/// to f + rest.
HostTensor rootTable(Lowerer &l, double low, double high, double unit, double rest,
                     llvm::function_ref<double(double)> f, double &error) {
  double segment = (high - low) / 510, first = low - segment;
  HostTensor entries(l.b.getI16Type(), {513});
  entries.mutableData();
  for (int i = 0; i < 513; ++i)
    entries.setInteger(i, std::llround(f(std::clamp(first + segment * i, low, high)) / unit));
  for (int i = 0; i < 512 * 8; ++i) {
    double a = (double)entries.integer(i / 8), b = (double)entries.integer(i / 8 + 1);
    double want = f(std::clamp(first + segment * i / 8, low, high));
    error = std::max(error, std::abs(unit * (a + (b - a) * (i % 8) / 8) - want) / (want + rest));
  }
  return entries;
}

/// 1 / sqrt(z / N + epsilon) of the rows, in steps of 1 / `scale`.
Value inverseRoot(Lowerer &l, const Rows &rows, double epsilon, double scale, SmallVectorImpl<Part> &parts) {
  auto root = [&](double z) { return 1 / std::sqrt(z / (double)rows.n + epsilon); };
  constexpr double fineLimit = 1024;
  constexpr int fineBits = 17; // twice fineLimit is within rescaleLimit
  double most = (double)rows.n * (rows.rest ? 16257 : 65025), last = least;
  int coarseBits = 27 - (int)std::ceil(std::log2(most));
  Value fine = variation(l, rows, fineLimit, fineBits), coarse = variation(l, rows, most, coarseBits), total;
  for (double low = least; low < most; low = last) {
    bool isFine = low * 4 <= fineLimit;
    int bits = isFine ? fineBits : coarseBits;
    double high = last = low * 4, step = low * 3 / 510 / 128, unit = (root(low) - root(high)) / 32767;
    double one = std::ldexp(1, bits), middle = std::nearbyint((low - 128 * step + 32768 * step) * one), error = 0;
    HostTensor entries =
        rootTable(l, low, high, unit, root(high), [&](double z) { return root(z) - root(high); }, error);
    Value z = isFine ? fine : coarse;
    z = l.binary("minimum", z, l.scalarLike(z, std::min(2 * high * one, 2147483647.0)));
    Value p = rescale(l, l.add(z, -middle), 1 / one / step, 0, 0, l.b.getI16Type());
    Value y = p ? l.op("table", {p, l.constant(entries)}, Lowerer::typeOf(p).clone(l.b.getI32Type())) : Value();
    y = y ? rescale(l, y, unit / 128 * scale * (1 << spare), 0, 0, l.b.getI32Type()) : y;
    if (!y)
      return {};
    total = total ? l.add(total, y) : y;
    // The position, the fraction of z, and what R and each table are rounded to.
    error += step / low / 2 + 1 / one / low + (0.5 + 16.0 / (1 << spare)) / (root(high) * scale);
    parts.push_back({error, 256 * root(low)});
  }
  total = l.add(total, std::nearbyint(root(last) * scale * (1 << spare)));
  return rescale(l, total, 1.0 / (1 << spare), 0, 0, l.b.getI32Type());
}

/// A constant operand of one number for each index of the last axis; `absent` where it
/// is not given. None after a reason.
std::optional<SmallVector<double>> factors(Operation *op, Lowerer &l, unsigned position, int64_t n, double absent) {
  Value v = onnx::getOptionalOperand(op, position);
  if (!v)
    return SmallVector<double>(n, absent);
  auto t = l.constantOf(v);
  bool row = t && t->size() == n && t->rank() > 0 && t->shape().back() == n;
  if (!t || !t->isFloat() || (!row && t->size() != 1)) {
    l.no() << "input '" << onnx::getOperandName(op, position) << "' is not a constant number, or one for each of " << n;
    return std::nullopt;
  }
  SmallVector<double> result;
  for (int64_t i = 0; i < n; ++i)
    result.push_back(t->real(t->size() == 1 ? 0 : i));
  return result;
}

Value rowOf(Lowerer &l, ArrayRef<int64_t> numbers) {
  HostTensor t(l.b.getI32Type(), {1, (int64_t)numbers.size()});
  t.mutableData();
  for (auto [i, v] : llvm::enumerate(numbers))
    t.setInteger(i, v);
  return l.constant(t);
}

/// y * gamma + beta, where |y * unit| is at most `most`, in a step that is common to all.
Value scaled(Lowerer &l, Value y, double unit, double most, ArrayRef<double> gamma, ArrayRef<double> beta,
             double &step) {
  double largest = 0;
  for (auto [g, b] : llvm::zip_equal(gamma, beta))
    largest = std::max(largest, std::abs(g) * most + std::abs(b));
  step = largest / (1 << 28);
  SmallVector<double> by;
  SmallVector<int64_t> signs, added;
  for (auto [g, b] : llvm::zip_equal(gamma, beta)) {
    by.push_back(std::max(std::abs(g), largest * 1e-15) * unit / step);
    signs.push_back(g < 0 ? -1 : 1);
    added.push_back(std::llround(b / step));
  }
  if (llvm::is_contained(signs, -1))
    y = l.mul(y, rowOf(l, signs));
  y = rescale(l, y, by, 0, 0, l.b.getI32Type());
  return y ? l.add(y, rowOf(l, added)) : y;
}

LogicalResult lowerNormalisation(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  auto m = plainOperand(op, l, 0);
  int64_t rank = Lowerer::rankOf(in), axis = onnx::getInt(op, "axis", -1);
  axis += axis < 0 ? rank : 0;
  if (!m)
    return failure();
  if (bitsOf(l, in) != 8 || axis != rank - 1)
    return l.no() << "of 16 bits, or over more than the last axis";
  if (onnx::getInt(op, "stash_type", 1) != 1 ||
      llvm::any_of(llvm::drop_begin(op->getResults()), [](Value v) { return !v.use_empty(); }))
    return l.no() << "stash_type is not 1, or the mean is wanted";
  int64_t n = Lowerer::shapeOf(in).back();
  auto gamma = factors(op, l, 1, n, 1), beta = factors(op, l, 2, n, 0);
  if (!gamma || !beta)
    return failure();
  constexpr int64_t longest = 16384; // sums of squares within 31 bits
  if (n < 2 || n > longest)
    return l.no() << "over " << n << " numbers, known are 2 to " << longest;
  bool centre = op->getName().stripDialect() == "LayerNormalization";
  Value x = l.reshape(l.get(in), {Lowerer::typeOf(in).getNumElements() / n, n});
  auto rows = rowsOf(l, x, m->zeroPoint, centre);
  if (!rows)
    return failure();
  double count = (double)n, most = std::sqrt(count);
  SmallVector<Part> parts;
  // |d R| is at most n sqrt(n) of these steps, and R, with its spare bits, that of the least z.
  double scale = rescaleLimit / std::max(count * most, std::sqrt(count / least) * (1 << spare));
  double epsilon = onnx::getFloat(op, "epsilon", 1e-5) / (m->scale[0] * m->scale[0]);
  Value inverse = inverseRoot(l, *rows, epsilon, scale, parts);
  if (!inverse)
    return failure();
  Value d = l.mul(rows->x, count);
  Value y = l.mul(centre ? l.sub(d, rows->rest) : d, inverse);
  bool finite = llvm::all_of(*gamma, [](double v) { return std::isfinite(v); }) &&
                llvm::all_of(*beta, [](double v) { return std::isfinite(v); });
  if (!finite || llvm::all_of(*gamma, [](double v) { return v == 0; }))
    return l.no() << "scales are all 0, or not finite";
  Scaled meaning;
  y = scaled(l, y, 1 / (count * scale), most, *gamma, *beta, meaning.scale[0]);
  if (!y)
    return failure();
  meaning.bound = (1 << 28) + 2;
  // Beyond the integers of the quantiser behind it an error does not show.
  double shown = most;
  if (auto q = readersQuantisation(result, l))
    shown = q->scale * (double)std::max(q->high() - q->zeroPoint, q->zeroPoint - q->low());
  for (auto [g, b] : llvm::zip_equal(*gamma, *beta))
    for (const Part &part : parts)
      meaning.error = std::max(meaning.error,
                               part.relative * std::min(std::abs(g) * std::min(most, part.most), shown + std::abs(b)));
  meaning.error += 2 * meaning.scale[0];
  l.set(result, l.reshape(y, Lowerer::shapeOf(result)));
  l.scaled[result] = meaning;
  return success();
}

RegisterLowering normalisation({"LayerNormalization", "RMSNormalization"}, Domain::Integer, Elements::Float,
                               {"axis", "epsilon", "stash_type"}, lowerNormalisation);

} // namespace
} // namespace tessera::tosa
