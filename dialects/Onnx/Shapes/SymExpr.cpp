// Expressions are kept as polynomials over atoms (leaves and the operators that
// are not + - *): a sum or product is multiplied out, terms are sorted and
// merged, and one chain of binary nodes is built from the result. Two
// expressions that are equal as polynomials are therefore the same pointer.
// What would grow past `maxTerms` or overflow stays an atom of its own.
#include "dialects/Onnx/Shapes/SymExpr.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Allocator.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

using namespace llvm;

namespace tessera::onnx {

namespace {

constexpr size_t maxTerms = 24;
using Bound = std::optional<int64_t>;

Bound checkedAdd(Bound a, Bound b) {
  int64_t r;
  if (!a || !b || __builtin_add_overflow(*a, *b, &r))
    return std::nullopt;
  return r;
}
Bound checkedSub(Bound a, Bound b) {
  int64_t r;
  if (!a || !b || __builtin_sub_overflow(*a, *b, &r))
    return std::nullopt;
  return r;
}
Bound checkedMul(Bound a, Bound b) {
  int64_t r;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &r))
    return std::nullopt;
  return r;
}
Bound checkedTruncDiv(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1))
    return std::nullopt;
  return a / b;
}
Bound checkedFloorDiv(int64_t a, int64_t b) {
  Bound q = checkedTruncDiv(a, b);
  if (q && a % b != 0 && (a < 0) != (b < 0))
    return *q - 1;
  return q;
}
int64_t floorMod(int64_t a, int64_t b) {
  if (b == -1)
    return 0;
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

struct Interval {
  Bound lower, upper;
};
Interval operator+(Interval a, Interval b) {
  return {checkedAdd(a.lower, b.lower), checkedAdd(a.upper, b.upper)};
}
Interval operator-(Interval a, Interval b) {
  return {checkedSub(a.lower, b.upper), checkedSub(a.upper, b.lower)};
}
// An open end times zero would need care; only the common cases are bounded.
Interval operator*(Interval a, Interval b) {
  if (a.lower && a.upper && b.lower && b.upper) {
    Bound p[] = {checkedMul(a.lower, b.lower), checkedMul(a.lower, b.upper),
                 checkedMul(a.upper, b.lower), checkedMul(a.upper, b.upper)};
    Interval r{p[0], p[0]};
    bool all = true;
    for (Bound x : p) {
      all &= x.has_value();
      if (all) {
        r.lower = std::min(*r.lower, *x);
        r.upper = std::max(*r.upper, *x);
      }
    }
    if (all)
      return r;
  }
  auto nonNegative = [](Interval i) { return i.lower && *i.lower >= 0; };
  auto nonPositive = [](Interval i) { return i.upper && *i.upper <= 0; };
  if (nonNegative(a) && nonNegative(b))
    return {checkedMul(a.lower, b.lower), checkedMul(a.upper, b.upper)};
  if (nonPositive(a) && nonNegative(b))
    return {checkedMul(a.lower, b.upper), checkedMul(a.upper, b.lower)};
  if (nonNegative(a) && nonPositive(b))
    return {checkedMul(a.upper, b.lower), checkedMul(a.lower, b.upper)};
  return {};
}

// coefficient * atoms[0] * atoms[1] ...; atoms sorted by id, may repeat.
struct Term {
  SmallVector<Sym, 2> atoms;
  int64_t coefficient;
};
// Sorted by the order below, no two with equal atoms, no zero coefficient.
using Poly = SmallVector<Term, 4>;

// Graded lexicographic order, largest first: admissible, as long division needs.
int compareMonomials(ArrayRef<Sym> a, ArrayRef<Sym> b) {
  if (a.size() != b.size())
    return a.size() > b.size() ? -1 : 1;
  for (auto [x, y] : zip(a, b))
    if (x != y)
      return x->id < y->id ? -1 : 1;
  return 0;
}

std::optional<Poly> normalise(Poly terms) {
  llvm::sort(terms, [](const Term &a, const Term &b) {
    return compareMonomials(a.atoms, b.atoms) < 0;
  });
  Poly out;
  for (Term &t : terms) {
    if (!out.empty() && compareMonomials(out.back().atoms, t.atoms) == 0) {
      Bound sum = checkedAdd(out.back().coefficient, t.coefficient);
      if (!sum)
        return std::nullopt;
      out.back().coefficient = *sum;
    } else {
      if (!out.empty() && out.back().coefficient == 0)
        out.pop_back();
      out.push_back(std::move(t));
    }
  }
  if (!out.empty() && out.back().coefficient == 0)
    out.pop_back();
  return out;
}

std::optional<Poly> addPoly(const Poly &a, const Poly &b, int64_t factor) {
  Poly all = a;
  for (const Term &t : b) {
    Bound c = checkedMul(t.coefficient, factor);
    if (!c)
      return std::nullopt;
    all.push_back({t.atoms, *c});
  }
  return normalise(std::move(all));
}

std::optional<Poly> mulPoly(const Poly &a, const Poly &b) {
  if (a.size() * b.size() > maxTerms)
    return std::nullopt;
  Poly all;
  for (const Term &x : a)
    for (const Term &y : b) {
      Bound c = checkedMul(x.coefficient, y.coefficient);
      if (!c)
        return std::nullopt;
      Term t{x.atoms, *c};
      t.atoms.append(y.atoms.begin(), y.atoms.end());
      llvm::sort(t.atoms, [](Sym l, Sym r) { return l->id < r->id; });
      all.push_back(std::move(t));
    }
  return normalise(std::move(all));
}

// a / b where b divides a: all of b's atoms are among a's.
std::optional<SmallVector<Sym, 2>> divideMonomial(ArrayRef<Sym> a, ArrayRef<Sym> b) {
  SmallVector<Sym, 2> rest;
  size_t j = 0;
  for (Sym s : a) {
    if (j < b.size() && b[j] == s)
      ++j;
    else
      rest.push_back(s);
  }
  if (j != b.size())
    return std::nullopt;
  return rest;
}

std::optional<Poly> dividePoly(Poly a, const Poly &b) {
  if (b.empty())
    return std::nullopt;
  Poly quotient;
  for (unsigned steps = 0; !a.empty(); ++steps) {
    if (steps > maxTerms)
      return std::nullopt;
    const Term &lead = a.front();
    auto atoms = divideMonomial(lead.atoms, b.front().atoms);
    int64_t d = b.front().coefficient;
    if (!atoms || (lead.coefficient == INT64_MIN && d == -1) || lead.coefficient % d != 0)
      return std::nullopt;
    Poly t{{*atoms, lead.coefficient / d}};
    auto product = mulPoly(t, b);
    if (!product)
      return std::nullopt;
    auto rest = addPoly(a, *product, -1);
    if (!rest)
      return std::nullopt;
    quotient.push_back(t.front());
    a = std::move(*rest);
  }
  return quotient;
}

Bound constantOf(const Poly &p) {
  if (p.empty())
    return 0;
  if (p.size() == 1 && p.front().atoms.empty())
    return p.front().coefficient;
  return std::nullopt;
}

Interval intervalOf(Sym s) { return {s->lower, s->upper}; }

Interval intervalOf(const Poly &p) {
  Interval sum{0, 0};
  for (const Term &t : p) {
    Interval i{t.coefficient, t.coefficient};
    for (Sym a : t.atoms)
      i = i * intervalOf(a);
    sum = sum + i;
  }
  return sum;
}

} // namespace

std::optional<int64_t> applySym(SymKind kind, ArrayRef<int64_t> v) {
  switch (kind) {
  case SymKind::Add: return checkedAdd(v[0], v[1]);
  case SymKind::Sub: return checkedSub(v[0], v[1]);
  case SymKind::Mul: return checkedMul(v[0], v[1]);
  case SymKind::FloorDiv: return checkedFloorDiv(v[0], v[1]);
  case SymKind::CeilDiv: {
    Bound q = checkedFloorDiv(v[0], v[1]);
    return q && v[1] != -1 && v[0] % v[1] != 0 ? checkedAdd(q, 1) : q;
  }
  case SymKind::TruncDiv: return checkedTruncDiv(v[0], v[1]);
  case SymKind::Mod:
    if (v[1] == 0)
      return std::nullopt;
    return floorMod(v[0], v[1]);
  case SymKind::Min: return std::min(v[0], v[1]);
  case SymKind::Max: return std::max(v[0], v[1]);
  case SymKind::Equal: return v[0] == v[1];
  case SymKind::Less: return v[0] < v[1];
  case SymKind::Select: return v[0] ? v[1] : v[2];
  case SymKind::Constant:
  case SymKind::InputDim:
  case SymKind::Data:
  case SymKind::Extent:
  case SymKind::BlockDim: break;
  }
  return std::nullopt;
}

struct SymContext::Impl {
  BumpPtrAllocator memory;
  std::unordered_map<size_t, SmallVector<SymExpr *, 1>> table;
  std::vector<SymExpr *> all; // for destruction
  DenseMap<Sym, Poly> polys;
  unsigned nextId = 0;

  ~Impl() {
    for (SymExpr *e : all)
      e->~SymExpr();
  }

  // The node itself, no folding beyond bounds.
  SymExpr *intern(SymKind kind, int64_t imm, mlir::Value value, ArrayRef<Sym> operands) {
    size_t hash = hash_combine(static_cast<unsigned>(kind), imm, value.getAsOpaquePointer(),
                               hash_combine_range(operands.begin(), operands.end()));
    auto &bucket = table[hash];
    for (SymExpr *e : bucket)
      if (e->kind == kind && e->imm == imm && e->value == value && e->operands == operands)
        return e;
    auto *e = new (memory.Allocate<SymExpr>()) SymExpr();
    e->kind = kind;
    e->imm = imm;
    e->value = value;
    e->operands = ArrayRef<Sym>(operands).copy(memory);
    e->id = nextId++;
    Interval b = bounds(*e);
    e->lower = b.lower;
    e->upper = b.upper;
    bucket.push_back(e);
    all.push_back(e);
    return e;
  }
  Sym node(SymKind kind, Sym a, Sym b) { return intern(kind, 0, {}, {a, b}); }
  Sym constant(int64_t v) { return intern(SymKind::Constant, v, {}, {}); }

  static Interval bounds(const SymExpr &e) {
    auto in = [&](unsigned i) { return intervalOf(e.operands[i]); };
    switch (e.kind) {
    case SymKind::Constant: return {e.imm, e.imm};
    case SymKind::InputDim:
    case SymKind::Extent:
    case SymKind::BlockDim: return {0, std::nullopt};
    case SymKind::Data: return {};
    case SymKind::Add: return in(0) + in(1);
    case SymKind::Sub: return in(0) - in(1);
    case SymKind::Mul: return in(0) * in(1);
    case SymKind::FloorDiv:
    case SymKind::CeilDiv:
    case SymKind::TruncDiv: {
      Interval a = in(0), b = in(1);
      if (!b.lower || *b.lower < 1)
        return {};
      // For a positive divisor the quotient is monotonic in the dividend, and
      // its distance from zero falls with the divisor.
      Interval r;
      auto quotient = [&](int64_t x, int64_t y) { return applySym(e.kind, {x, y}); };
      if (a.lower) {
        if (*a.lower < 0)
          r.lower = quotient(*a.lower, *b.lower);
        else
          r.lower = b.upper ? quotient(*a.lower, *b.upper)
                            : Bound(e.kind == SymKind::CeilDiv && *a.lower > 0 ? 1 : 0);
      }
      if (a.upper) {
        if (*a.upper >= 0)
          r.upper = quotient(*a.upper, *b.lower);
        else
          r.upper = b.upper ? quotient(*a.upper, *b.upper)
                            : Bound(e.kind == SymKind::FloorDiv ? -1 : 0);
      }
      return r;
    }
    case SymKind::Mod: {
      Interval b = in(1);
      if (b.lower && *b.lower >= 1)
        return {0, checkedSub(b.upper, 1)};
      return {};
    }
    case SymKind::Min: {
      Interval a = in(0), b = in(1), r;
      if (a.lower && b.lower)
        r.lower = std::min(*a.lower, *b.lower);
      if (a.upper && b.upper)
        r.upper = std::min(*a.upper, *b.upper);
      else
        r.upper = a.upper ? a.upper : b.upper;
      return r;
    }
    case SymKind::Max: {
      Interval a = in(0), b = in(1), r;
      if (a.upper && b.upper)
        r.upper = std::max(*a.upper, *b.upper);
      if (a.lower && b.lower)
        r.lower = std::max(*a.lower, *b.lower);
      else
        r.lower = a.lower ? a.lower : b.lower;
      return r;
    }
    case SymKind::Equal:
    case SymKind::Less: return {0, 1};
    case SymKind::Select: {
      Interval a = in(1), b = in(2), r;
      if (a.lower && b.lower)
        r.lower = std::min(*a.lower, *b.lower);
      if (a.upper && b.upper)
        r.upper = std::max(*a.upper, *b.upper);
      return r;
    }
    }
    return {};
  }

  static bool isArithmetic(SymKind k) {
    return k == SymKind::Add || k == SymKind::Sub || k == SymKind::Mul;
  }

  Poly polyOf(Sym s) {
    if (s->isConstant())
      return s->imm == 0 ? Poly{} : Poly{{{}, s->imm}};
    if (auto it = polys.find(s); it != polys.end())
      return it->second;
    return Poly{{{s}, 1}};
  }

  // The one chain of nodes that stands for `p`; every partial sum gets its
  // polynomial too.
  Sym build(const Poly &p) {
    if (auto c = constantOf(p))
      return constant(*c);
    Sym sum = nullptr;
    Poly partial;
    auto append = [&](const Term &t, bool negative) {
      Sym product = nullptr;
      SmallVector<Sym, 2> atoms;
      for (Sym a : t.atoms) {
        product = product ? node(SymKind::Mul, product, a) : a;
        atoms.push_back(a);
        if (atoms.size() > 1)
          polys.try_emplace(product, Poly{{atoms, 1}});
      }
      bool subtract = negative && sum && t.coefficient != INT64_MIN;
      int64_t c = subtract ? -t.coefficient : t.coefficient;
      if (!product)
        product = constant(c);
      else if (c != 1) {
        product = node(SymKind::Mul, product, constant(c));
        polys.try_emplace(product, Poly{{atoms, c}});
      }
      partial.push_back(t);
      if (!sum) {
        sum = product;
        return;
      }
      sum = node(subtract ? SymKind::Sub : SymKind::Add, sum, product);
      if (auto n = normalise(partial))
        polys.try_emplace(sum, *n);
    };
    const Term *number = p.back().atoms.empty() ? &p.back() : nullptr;
    for (const Term &t : p)
      if (t.coefficient > 0 && &t != number)
        append(t, false);
    if (!sum && number && number->coefficient > 0) {
      append(*number, false);
      number = nullptr;
    }
    for (const Term &t : p)
      if (t.coefficient < 0 && &t != number)
        append(t, true);
    if (number && number->coefficient != 0)
      append(*number, false);
    return sum;
  }

  // `s` with the atom `leaf` replaced by a number where it is a factor of a
  // term; null where that overflows.
  Sym substitute(Sym s, Sym leaf, int64_t number) {
    Poly out;
    for (const Term &t : polyOf(s)) {
      Term r{{}, t.coefficient};
      for (Sym a : t.atoms) {
        if (a != leaf) {
          r.atoms.push_back(a);
          continue;
        }
        Bound c = checkedMul(r.coefficient, number);
        if (!c)
          return nullptr;
        r.coefficient = *c;
      }
      out.push_back(std::move(r));
    }
    auto p = normalise(std::move(out));
    return p ? build(*p) : nullptr;
  }

  void tighten(Sym s, Interval i) {
    if (s->isConstant())
      return;
    auto *e = const_cast<SymExpr *>(s);
    if (i.lower && (!e->lower || *e->lower < *i.lower))
      e->lower = i.lower;
    if (i.upper && (!e->upper || *e->upper > *i.upper))
      e->upper = i.upper;
  }

  Interval difference(Sym a, Sym b) {
    Interval plain = intervalOf(a) - intervalOf(b);
    if (auto d = addPoly(polyOf(a), polyOf(b), -1)) {
      Interval i = intervalOf(*d);
      if (i.lower && (!plain.lower || *plain.lower < *i.lower))
        plain.lower = i.lower;
      if (i.upper && (!plain.upper || *plain.upper > *i.upper))
        plain.upper = i.upper;
    }
    return plain;
  }

  bool lessEqual(Sym a, Sym b, unsigned depth = 4) {
    if (a == b)
      return true;
    if (a->isConstant(INT64_MIN) || b->isConstant(INT64_MAX))
      return true;
    if (Bound u = difference(a, b).upper; u && *u <= 0)
      return true;
    if (depth == 0)
      return false;
    auto both = [&](Sym x, Sym y, Sym z, bool left) {
      return left ? lessEqual(x, z, depth - 1) && lessEqual(y, z, depth - 1)
                  : lessEqual(z, x, depth - 1) && lessEqual(z, y, depth - 1);
    };
    auto either = [&](Sym x, Sym y, Sym z, bool left) {
      return left ? lessEqual(x, z, depth - 1) || lessEqual(y, z, depth - 1)
                  : lessEqual(z, x, depth - 1) || lessEqual(z, y, depth - 1);
    };
    if (a->kind == SymKind::Max && both(a->operands[0], a->operands[1], b, true))
      return true;
    if (b->kind == SymKind::Min && both(b->operands[0], b->operands[1], a, false))
      return true;
    if (a->kind == SymKind::Min && either(a->operands[0], a->operands[1], b, true))
      return true;
    if (b->kind == SymKind::Max && either(b->operands[0], b->operands[1], a, false))
      return true;
    if (a->kind == SymKind::Select && both(a->operands[1], a->operands[2], b, true))
      return true;
    return b->kind == SymKind::Select && both(b->operands[1], b->operands[2], a, false);
  }

  void flatten(SymKind kind, Sym s, SmallVectorImpl<Sym> &out) {
    if (s->kind == kind) {
      flatten(kind, s->operands[0], out);
      flatten(kind, s->operands[1], out);
    } else
      out.push_back(s);
  }

  Sym extremum(SymKind kind, Sym a, Sym b) {
    SmallVector<Sym, 8> parts, kept;
    flatten(kind, a, parts);
    flatten(kind, b, parts);
    auto covers = [&](Sym x, Sym y) { // x makes y superfluous
      return kind == SymKind::Min ? lessEqual(x, y) : lessEqual(y, x);
    };
    for (Sym s : parts) {
      if (any_of(kept, [&](Sym k) { return covers(k, s); }))
        continue;
      erase_if(kept, [&](Sym k) { return covers(s, k); });
      kept.push_back(s);
    }
    llvm::sort(kept, [](Sym l, Sym r) { return l->id < r->id; });
    Sym result = kept.front();
    for (Sym s : drop_begin(kept))
      result = node(kind, result, s);
    return result;
  }
};

SymContext::SymContext() : impl(std::make_unique<Impl>()) {}
SymContext::~SymContext() = default;

Sym SymContext::constant(int64_t v) { return impl->constant(v); }

Sym SymContext::leaf(SymKind kind, mlir::Value value, int64_t index, std::optional<int64_t> lower,
                     std::optional<int64_t> upper) {
  Sym s = impl->intern(kind, index, value, {});
  impl->tighten(s, {lower, upper});
  return s;
}

Sym SymContext::add(Sym a, Sym b) {
  if (auto p = addPoly(impl->polyOf(a), impl->polyOf(b), 1); p && p->size() <= maxTerms) {
    Sym s = impl->build(*p);
    impl->tighten(s, intervalOf(a) + intervalOf(b));
    return s;
  }
  return impl->node(SymKind::Add, a, b);
}

Sym SymContext::sub(Sym a, Sym b) {
  if (auto p = addPoly(impl->polyOf(a), impl->polyOf(b), -1); p && p->size() <= maxTerms) {
    Sym s = impl->build(*p);
    impl->tighten(s, intervalOf(a) - intervalOf(b));
    return s;
  }
  return impl->node(SymKind::Sub, a, b);
}

Sym SymContext::mul(Sym a, Sym b) {
  if (auto p = mulPoly(impl->polyOf(a), impl->polyOf(b))) {
    Sym s = impl->build(*p);
    impl->tighten(s, intervalOf(a) * intervalOf(b));
    return s;
  }
  if (a->id > b->id)
    std::swap(a, b);
  return impl->node(SymKind::Mul, a, b);
}

Sym SymContext::exactQuotient(Sym a, Sym b) {
  if (auto q = dividePoly(impl->polyOf(a), impl->polyOf(b)))
    return impl->build(*q);
  return nullptr;
}

Sym SymContext::floorDiv(Sym a, Sym b) {
  if (a->isConstant() && b->isConstant()) {
    if (auto q = checkedFloorDiv(a->imm, b->imm))
      return constant(*q);
    return impl->node(SymKind::FloorDiv, a, b);
  }
  if (Sym q = exactQuotient(a, b))
    return q;
  if (a->lower && *a->lower >= 0 && b->lower && *b->lower >= 1 &&
      impl->lessEqual(add(a, constant(1)), b))
    return constant(0);
  if (!b->isConstant() || b->imm <= 0)
    return impl->node(SymKind::FloorDiv, a, b);

  // floor((k*d + r) / d) = k + floor(r / d), with coefficients of r in [0, d).
  int64_t d = b->imm;
  Poly whole, rest;
  for (const Term &t : impl->polyOf(a)) {
    int64_t q = *checkedFloorDiv(t.coefficient, d);
    if (q != 0)
      whole.push_back({t.atoms, q});
    if (int64_t r = floorMod(t.coefficient, d))
      rest.push_back({t.atoms, r});
  }
  // floor((floor(x / c) + r) / d) = floor((x + c*r) / (c*d))
  for (const Term &t : rest) {
    if (t.coefficient != 1 || t.atoms.size() != 1)
      continue;
    Sym inner = t.atoms.front();
    if (inner->kind != SymKind::FloorDiv || !inner->operands[1]->isConstant() ||
        inner->operands[1]->imm <= 0)
      continue;
    Bound cd = checkedMul(inner->operands[1]->imm, d);
    if (!cd)
      continue;
    Sym restSym = impl->build(rest);
    Sym dividend = add(inner->operands[0], mul(sub(restSym, inner), inner->operands[1]));
    Sym q = floorDiv(dividend, constant(*cd));
    return whole.empty() ? q : add(impl->build(whole), q);
  }
  // A common factor of the rest and the divisor, the number aside:
  // floor((g*x + r) / (g*d)) = floor((x + floor(r / g)) / d).
  int64_t g = d;
  for (const Term &t : rest)
    if (!t.atoms.empty())
      g = std::gcd(g, t.coefficient);
  if (g > 1) {
    for (Term &t : rest)
      t.coefficient = *checkedFloorDiv(t.coefficient, g);
    llvm::erase_if(rest, [](const Term &t) { return t.coefficient == 0; });
    d /= g;
  }
  Sym fraction;
  if (auto c = constantOf(rest))
    fraction = constant(*checkedFloorDiv(*c, d));
  else if (d == 1)
    fraction = impl->build(rest);
  else {
    Sym dividend = impl->build(rest);
    Interval i = intervalOf(dividend);
    if (i.lower && i.upper && *checkedFloorDiv(*i.lower, d) == *checkedFloorDiv(*i.upper, d))
      fraction = constant(*checkedFloorDiv(*i.lower, d));
    else
      fraction = impl->node(SymKind::FloorDiv, dividend, constant(d));
  }
  Sym result = whole.empty() ? fraction : add(impl->build(whole), fraction);
  Interval i = intervalOf(a);
  Interval q{i.lower ? checkedFloorDiv(*i.lower, b->imm) : Bound(),
             i.upper ? checkedFloorDiv(*i.upper, b->imm) : Bound()};
  impl->tighten(result, q);
  return result;
}

Sym SymContext::ceilDiv(Sym a, Sym b) {
  if (Sym q = exactQuotient(a, b); q && !(b->isConstant(0)))
    return q;
  if (b->isConstant() && b->imm > 0)
    return floorDiv(add(a, constant(b->imm - 1)), b);
  if (a->isConstant() && b->isConstant())
    if (auto q = applySym(SymKind::CeilDiv, {a->imm, b->imm}))
      return constant(*q);
  return impl->node(SymKind::CeilDiv, a, b);
}

Sym SymContext::truncDiv(Sym a, Sym b) {
  if (a->isConstant() && b->isConstant()) {
    if (auto q = checkedTruncDiv(a->imm, b->imm))
      return constant(*q);
    return impl->node(SymKind::TruncDiv, a, b);
  }
  if (Sym q = exactQuotient(a, b))
    return q;
  if (a->lower && *a->lower >= 0 && b->lower && *b->lower >= 0)
    return floorDiv(a, b);
  return impl->node(SymKind::TruncDiv, a, b);
}

Sym SymContext::mod(Sym a, Sym b) {
  if (a->isConstant() && b->isConstant() && b->imm != 0)
    return constant(floorMod(a->imm, b->imm));
  if (exactQuotient(a, b))
    return constant(0);
  if (a->lower && *a->lower >= 0 && b->lower && *b->lower >= 1 &&
      impl->lessEqual(add(a, constant(1)), b))
    return a;
  if (b->isConstant() && b->imm > 0) {
    Poly rest;
    for (const Term &t : impl->polyOf(a))
      if (int64_t r = floorMod(t.coefficient, b->imm))
        rest.push_back({t.atoms, r});
    if (auto c = constantOf(rest))
      return constant(floorMod(*c, b->imm));
    Sym reduced = impl->build(rest);
    if (reduced->lower && *reduced->lower >= 0 && reduced->upper && *reduced->upper < b->imm)
      return reduced;
    return impl->node(SymKind::Mod, reduced, b);
  }
  return impl->node(SymKind::Mod, a, b);
}

Sym SymContext::min(Sym a, Sym b) { return impl->extremum(SymKind::Min, a, b); }
Sym SymContext::max(Sym a, Sym b) { return impl->extremum(SymKind::Max, a, b); }

Sym SymContext::equal(Sym a, Sym b) {
  Interval d = impl->difference(a, b);
  if (a == b || (d.lower == 0 && d.upper == 0))
    return constant(1);
  if ((d.lower && *d.lower > 0) || (d.upper && *d.upper < 0))
    return constant(0);
  if (a->isConstant())
    std::swap(a, b);
  else if (!b->isConstant() && a->id > b->id)
    std::swap(a, b);
  if (a->kind == SymKind::Select) {
    // A selection between values that are known to be, or not to be, b.
    Sym t = equal(a->operands[1], b), e = equal(a->operands[2], b);
    if (t->isConstant() && e->isConstant())
      return select(a->operands[0], t, e);
  }
  return impl->node(SymKind::Equal, a, b);
}

Sym SymContext::less(Sym a, Sym b) {
  if (impl->lessEqual(b, a))
    return constant(0);
  if (Bound u = impl->difference(a, b).upper; u && *u < 0)
    return constant(1);
  return impl->node(SymKind::Less, a, b);
}

Sym SymContext::select(Sym c, Sym a, Sym b) {
  if (c->isConstant())
    return c->imm ? a : b;
  if (a == b)
    return a;
  bool isBool = c->lower && *c->lower >= 0 && c->upper && *c->upper <= 1;
  if (isBool && a->isConstant(1) && b->isConstant(0))
    return c;
  if (isBool && a->isConstant(0) && b->isConstant(1))
    return logicalNot(c);
  // x == y ? x : y and x == y ? y : x are both the second alternative.
  if (c->kind == SymKind::Equal && ((a == c->operands[0] && b == c->operands[1]) ||
                                    (a == c->operands[1] && b == c->operands[0])))
    return b;
  // n == 1 ? a : b, where b at n = 1 is what a is at n = 1.
  if (c->kind == SymKind::Equal && c->operands[1]->isConstant() &&
      c->operands[0]->operands.empty()) {
    auto at = [&](Sym s) { return impl->substitute(s, c->operands[0], c->operands[1]->imm); };
    Sym x = at(a), y = at(b);
    if (x && x == y)
      return b;
  }
  // c ? (c ? x : y) : z
  if (a->kind == SymKind::Select && a->operands[0] == c)
    return select(c, a->operands[1], b);
  if (b->kind == SymKind::Select && b->operands[0] == c)
    return select(c, a, b->operands[2]);
  return impl->intern(SymKind::Select, 0, {}, {c, a, b});
}

Sym SymContext::product(ArrayRef<Sym> factors) {
  Sym p = constant(1);
  for (Sym f : factors)
    p = mul(p, f);
  return p;
}

bool SymContext::provablyLessEqual(Sym a, Sym b) { return impl->lessEqual(a, b); }

SymEvaluator::SymEvaluator(LeafFn leafValue) : leafValue(std::move(leafValue)) {}

std::optional<int64_t> SymEvaluator::operator()(Sym s) {
  if (s->isConstant())
    return s->imm;
  if (auto it = known.find(s); it != known.end())
    return it->second;
  std::optional<int64_t> result;
  if (s->operands.empty())
    result = leafValue(s);
  else if (s->kind == SymKind::Select) {
    if (auto c = (*this)(s->operands[0]))
      result = (*this)(s->operands[*c ? 1 : 2]);
  } else {
    auto a = (*this)(s->operands[0]), b = (*this)(s->operands[1]);
    if (a && b)
      result = applySym(s->kind, {*a, *b});
  }
  known[s] = result;
  return result;
}

void forEachLeaf(Sym root, function_ref<void(Sym)> visit) {
  SmallVector<Sym, 16> stack{root};
  DenseSet<Sym> seen{root};
  while (!stack.empty()) {
    Sym s = stack.pop_back_val();
    if (s->operands.empty() && !s->isConstant())
      visit(s);
    for (Sym o : reverse(s->operands))
      if (seen.insert(o).second)
        stack.push_back(o);
  }
}

namespace {

// %arg1 for a block argument, the node's name or the operator for a result.
void printValue(raw_ostream &os, mlir::Value v) {
  if (!v) {
    os << "?";
    return;
  }
  if (auto arg = mlir::dyn_cast<mlir::BlockArgument>(v)) {
    os << "%arg" << arg.getArgNumber();
    return;
  }
  mlir::Operation *op = v.getDefiningOp();
  if (auto named = mlir::dyn_cast<mlir::NameLoc>(op->getLoc()))
    os << named.getName().getValue();
  else
    os << op->getName().getStringRef();
  if (op->getNumResults() > 1)
    os << "#" << mlir::cast<mlir::OpResult>(v).getResultNumber();
}

// Precedence: 1 sum, 2 product, 3 atom.
void printExpr(raw_ostream &os, Sym e, int context) {
  auto call = [&](const char *name) {
    os << name << "(";
    interleaveComma(e->operands, os, [&](Sym o) { printExpr(os, o, 0); });
    os << ")";
  };
  auto infix = [&](const char *op, int level) {
    if (level < context)
      os << "(";
    printExpr(os, e->operands[0], level);
    os << op;
    printExpr(os, e->operands[1], level + 1);
    if (level < context)
      os << ")";
  };
  auto leaf = [&](const char *name) {
    if (*name)
      os << name << "(";
    printValue(os, e->value);
    if (*name)
      os << ")";
    os << "[" << e->imm << "]";
  };
  switch (e->kind) {
  case SymKind::Constant: os << e->imm; break;
  case SymKind::InputDim: leaf(""); break;
  case SymKind::Data: leaf("data"); break;
  case SymKind::Extent: leaf("extent"); break;
  case SymKind::BlockDim: leaf("block"); break;
  case SymKind::Add:
    if (Sym r = e->operands[1]; r->isConstant() && r->imm < 0 && r->imm != INT64_MIN) {
      if (context > 1)
        os << "(";
      printExpr(os, e->operands[0], 1);
      os << " - " << -r->imm;
      if (context > 1)
        os << ")";
      break;
    }
    infix(" + ", 1);
    break;
  case SymKind::Sub: infix(" - ", 1); break;
  case SymKind::Mul: infix("*", 2); break;
  case SymKind::FloorDiv: call("floordiv"); break;
  case SymKind::CeilDiv: call("ceildiv"); break;
  case SymKind::TruncDiv: call("truncdiv"); break;
  case SymKind::Mod: call("mod"); break;
  case SymKind::Min: call("min"); break;
  case SymKind::Max: call("max"); break;
  case SymKind::Equal: call("eq"); break;
  case SymKind::Less: call("lt"); break;
  case SymKind::Select: call("select"); break;
  }
}

} // namespace

void SymExpr::print(raw_ostream &os) const { printExpr(os, this, 0); }

std::string toString(Sym expression) {
  std::string text;
  raw_string_ostream os(text);
  expression->print(os);
  return text;
}

} // namespace tessera::onnx
