// Transposition, reversal and concatenation.
#include "mlir/IR/Operation.h"
#include "targets/EthosU/Limits/Check.h"

using namespace mlir;

namespace tessera::ethosu {
namespace {

int64_t product(ArrayRef<int64_t> v) {
  int64_t p = 1;
  for (int64_t d : v)
    p *= d;
  return p;
}

/// U55 and U65 transpose by moving planes of three axes, so Vela sorts the axes
/// of a tensor by exchanges, each of which it does on a view of three axes:
///
///   [A B C D E] exchange B and D    A left     [A|B|CDE]  to [B A C D E]
///                                   D right    [BAC|D|E]  to [B A C E D]
///                                   the outer  [B|ACE|D]  to [D A C E B]
///                                   and D, B to where the other was
///
/// No axis of a view may be longer than 65,536. 32-bit elements go as pairs of
/// 16-bit ones, which halves what an exchange of the outer two may have inside,
/// and an exchange of the outer with the innermost takes three.
class Transposition {
public:
  Transposition(ArrayRef<int64_t> shape, bool wide)
      : shape(shape), wide(wide) {}

  /// Whether the sort into the order `perms` works; `fault` says which view
  /// does not.
  bool run(SmallVector<int64_t> perms, std::string &fault) {
    // at[i]: where axis i of the operand belongs.
    SmallVector<int64_t> at(perms.size());
    for (auto [to, from] : llvm::enumerate(perms))
      at[from] = to;
    for (int64_t i = 0; i < (int64_t)at.size() && why.empty(); ++i) {
      auto found = llvm::find(at, i) - at.begin();
      if (found == i)
        continue;
      exchange(i, found);
      std::swap(at[i], at[found]);
    }
    fault = why;
    return why.empty();
  }

private:
  /// Exchanges axes `a` and `b` of the view [h, w, c].
  void exchange3(int64_t h, int64_t w, int64_t c, int a, int b) {
    if (std::max({h, w, c}) > maxAxis)
      return fail(h, w, c, maxAxis);
    if (!wide)
      return;
    constexpr int64_t maxInner = 16384;
    int64_t inner = a == 0 && b == 1 ? c : a == 0 && b == 2 ? w : 0;
    if (inner > maxInner)
      fail(h, w, c, maxInner);
  }

  void fail(int64_t h, int64_t w, int64_t c, int64_t limit) {
    if (why.empty())
      why = ("takes a step on axes of " + Twine(h) + ", " + Twine(w) + ", " +
             Twine(c) + ", one longer than " + Twine(limit))
                .str();
  }

  ArrayRef<int64_t> part(size_t from, size_t to) const {
    return ArrayRef(shape).slice(from, to - from);
  }

  void move(size_t from, size_t to) {
    int64_t d = shape[from];
    shape.erase(shape.begin() + from);
    shape.insert(shape.begin() + to, d);
  }

  void exchange(size_t a, size_t b) {
    size_t n = shape.size();
    if (n <= 3 || (a >= n - 3 && product(part(0, n - 3)) == 1)) {
      SmallVector<int64_t> hwc(3 - std::min<size_t>(n, 3), 1);
      hwc.append(shape.end() - std::min<size_t>(n, 3), shape.end());
      exchange3(hwc[0], hwc[1], hwc[2], int(a + 3 - n), int(b + 3 - n));
      std::swap(shape[a], shape[b]);
    } else if (a == 0 && b == 1) {
      exchange3(shape[0], shape[1], product(part(2, n)), 0, 1);
      std::swap(shape[a], shape[b]);
    } else if (a == n - 2 && b == n - 1) {
      exchange3(product(part(0, n - 2)), shape[a], shape[b], 1, 2);
      std::swap(shape[a], shape[b]);
    } else if (a != 0) {
      exchange3(product(part(0, a)), shape[a], product(part(a + 1, n)), 0, 1);
      move(a, 0);
      exchange(0, b);
      exchange3(shape[0], product(part(1, a + 1)), product(part(a + 1, n)), 0,
                1);
      move(0, a);
    } else if (b != n - 1) {
      exchange3(product(part(0, b)), shape[b], product(part(b + 1, n)), 1, 2);
      move(b, n - 1);
      exchange(0, n - 1);
      exchange3(product(part(0, b)), product(part(b, n - 1)), shape[n - 1], 1,
                2);
      move(n - 1, b);
    } else {
      exchange3(shape[0], product(part(1, n - 1)), shape[n - 1], 0, 2);
      std::swap(shape[a], shape[b]);
    }
  }

  SmallVector<int64_t> shape;
  bool wide;
  std::string why;
};

/// Whether only axes of one element move, which is a new view of the same
/// bytes.
bool isView(ArrayRef<int64_t> shape, ArrayRef<int64_t> perms) {
  int64_t last = -1;
  for (int64_t p : perms) {
    if (shape[p] == 1)
      continue;
    if (p < last)
      return false;
    last = p;
  }
  return true;
}

} // namespace

void checkTranspose(Check &c) {
  SmallVector<int64_t> perms = c.ints("perms");
  ArrayRef<int64_t> shape = c.operandShape(0);
  if (c.isU85() || isView(shape, perms))
    return;
  std::string fault;
  if (!Transposition(shape, c.elementOf(c.op->getOperand(0)).isInteger(32))
           .run(perms, fault))
    c.no(fault);
}

void checkConcat(Check &c) {
  c.atMost("tensors", c.op->getNumOperands(), maxTensors);
}

void checkReverse(Check &c) {
  int64_t last = (int64_t)c.operandShape(0).size() - 1;
  if (!c.isU85() && c.axis() == last)
    c.no("axis " + Twine(last) + " is the innermost, the channels");
}

} // namespace tessera::ethosu
