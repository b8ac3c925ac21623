// Elementwise operators over constants.
//
// Floating-point results are computed in double and rounded once: for +, -, *,
// / and square root that is the correctly rounded f32 (f16, bf16) result, the
// one the runtime gives. Transcendental functions are folded for types up to
// f32 only, where a double result determines the rounded value.
#include "passes/Canonicalise/Evaluate.h"

#include "dialects/Onnx/IR/OnnxUtils.h"

#include <cmath>

using namespace mlir;

namespace tessera::onnx {

namespace {

// Walks an output shape in row-major order and keeps the offsets of broadcast operands.
class BroadcastWalk {
public:
  BroadcastWalk(ArrayRef<int64_t> shape, ArrayRef<const HostTensor *> operands)
      : shape(shape), index(shape.size(), 0), at(operands.size(), 0) {
    for (const HostTensor *t : operands) {
      SmallVector<int64_t> own = rowMajorStrides(t->shape()), wide(shape.size(), 0);
      for (size_t i = 0, n = own.size(); i < n; ++i)
        if (t->shape()[n - 1 - i] != 1)
          wide[shape.size() - 1 - i] = own[n - 1 - i];
      strides.push_back(wide);
    }
  }
  int64_t operator[](unsigned operand) const { return at[operand]; }
  void next() {
    for (int64_t a = (int64_t)shape.size() - 1; a >= 0; --a) {
      bool wrapped = ++index[a] == shape[a];
      for (size_t k = 0; k < at.size(); ++k)
        at[k] += wrapped ? -strides[k][a] * (shape[a] - 1) : strides[k][a];
      if (!wrapped)
        return;
      index[a] = 0;
    }
  }

private:
  ArrayRef<int64_t> shape;
  SmallVector<int64_t> index, at;
  SmallVector<SmallVector<int64_t>> strides;
};

StringRef kind(Operation *op) { return op->getName().stripDialect(); }

Type resultElement(Operation *op, unsigned i = 0) {
  return cast<ShapedType>(op->getResult(i).getType()).getElementType();
}

std::optional<double> realBinary(StringRef k, double a, double b) {
  if (k == "Add")
    return a + b;
  if (k == "Sub")
    return a - b;
  if (k == "Mul")
    return a * b;
  if (k == "Div")
    return a / b;
  if (k == "Max")
    return std::isnan(a) || std::isnan(b) ? NAN : a < b ? b : a;
  if (k == "Min")
    return std::isnan(a) || std::isnan(b) ? NAN : b < a ? b : a;
  return std::nullopt;
}

std::optional<int64_t> integerBinary(StringRef k, int64_t a, int64_t b, bool isUnsigned) {
  uint64_t ua = a, ub = b;
  if (k == "Add")
    return (int64_t)(ua + ub);
  if (k == "Sub")
    return (int64_t)(ua - ub);
  if (k == "Mul")
    return (int64_t)(ua * ub);
  if (k == "Div") {
    if (b == 0)
      return std::nullopt;
    if (isUnsigned)
      return (int64_t)(ua / ub);
    return b == -1 ? (int64_t)(0 - ua) : a / b;
  }
  bool less = isUnsigned ? ua < ub : a < b;
  if (k == "Max")
    return less ? b : a;
  if (k == "Min")
    return less ? a : b;
  if (k == "BitwiseAnd" || k == "And")
    return a & b;
  if (k == "BitwiseOr" || k == "Or")
    return a | b;
  if (k == "BitwiseXor" || k == "Xor")
    return a ^ b;
  return std::nullopt;
}

EvaluatedResults binary(Operation *op, const HostTensor &a, const HostTensor &b,
                        const ConstantOperands &in) {
  if (isa<ComplexType>(a.element()) || a.element() != b.element())
    return std::nullopt;
  auto shape = broadcastShapes(a.shape(), b.shape());
  if (!shape || !in.fits(a.element(), *shape))
    return std::nullopt;
  HostTensor out(a.element(), *shape);
  BroadcastWalk at(*shape, {&a, &b});
  StringRef k = kind(op);
  for (int64_t i = 0; i < out.size(); ++i, at.next()) {
    if (a.isFloat()) {
      auto v = realBinary(k, a.real(at[0]), b.real(at[1]));
      if (!v)
        return std::nullopt;
      out.setReal(i, *v);
    } else {
      auto v = integerBinary(k, a.integer(at[0]), b.integer(at[1]), a.isUnsigned());
      if (!v)
        return std::nullopt;
      out.setInteger(i, *v);
    }
  }
  return single(std::move(out));
}

RegisterEvaluator registerBinary(
    {"Add", "Sub", "Mul", "Div", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "And", "Or", "Xor"},
    [](Operation *op, const ConstantOperands &in) {
      return binary(op, *in[0], *in[1], in);
    });

RegisterEvaluator registerVariadic(
    {"Max", "Min"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      HostTensor acc = *in[0];
      for (unsigned i = 1; i < in.size(); ++i) {
        auto next = binary(op, acc, *in[i], in);
        if (!next)
          return std::nullopt;
        acc = std::move(next->front());
      }
      return single(std::move(acc));
    });

RegisterEvaluator registerCompare(
    {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"},
    [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &a = *in[0], &b = *in[1];
      Type i1 = IntegerType::get(op->getContext(), 1);
      auto shape = broadcastShapes(a.shape(), b.shape());
      if (!shape || isa<ComplexType>(a.element()) || !in.fits(i1, *shape))
        return std::nullopt;
      HostTensor out(i1, *shape);
      BroadcastWalk at(*shape, {&a, &b});
      StringRef k = kind(op);
      auto decide = [&](auto x, auto y) {
        return k == "Equal"         ? x == y
               : k == "Less"        ? x < y
               : k == "LessOrEqual" ? x <= y
               : k == "Greater"     ? x > y
                                    : x >= y;
      };
      for (int64_t i = 0; i < out.size(); ++i, at.next()) {
        bool v;
        if (a.isFloat())
          v = decide(a.real(at[0]), b.real(at[1]));
        else if (a.isUnsigned())
          v = decide((uint64_t)a.integer(at[0]), (uint64_t)b.integer(at[1]));
        else
          v = decide(a.integer(at[0]), b.integer(at[1]));
        out.setInteger(i, v);
      }
      return single(std::move(out));
    });

RegisterEvaluator registerMod(
    {"Mod"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &a = *in[0], &b = *in[1];
      auto shape = broadcastShapes(a.shape(), b.shape());
      bool fmod = getInt(op, "fmod") != 0;
      if (!shape || !in.fits(a.element(), *shape) || (a.isFloat() && !fmod))
        return std::nullopt;
      HostTensor out(a.element(), *shape);
      BroadcastWalk at(*shape, {&a, &b});
      for (int64_t i = 0; i < out.size(); ++i, at.next()) {
        if (a.isFloat()) {
          out.setReal(i, std::fmod(a.real(at[0]), b.real(at[1])));
          continue;
        }
        int64_t x = a.integer(at[0]), y = b.integer(at[1]);
        if (y == 0)
          return std::nullopt;
        if (a.isUnsigned()) {
          out.setInteger(i, (int64_t)((uint64_t)x % (uint64_t)y));
          continue;
        }
        int64_t r = y == -1 ? 0 : x % y;
        if (!fmod && r != 0 && (r < 0) != (y < 0))
          r += y;
        out.setInteger(i, r);
      }
      return single(std::move(out));
    });

RegisterEvaluator registerPow(
    {"Pow"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &a = *in[0], &b = *in[1];
      auto shape = broadcastShapes(a.shape(), b.shape());
      if (!shape || !in.fits(a.element(), *shape) || isa<ComplexType>(a.element()))
        return std::nullopt;
      HostTensor out(a.element(), *shape);
      BroadcastWalk at(*shape, {&a, &b});
      for (int64_t i = 0; i < out.size(); ++i, at.next()) {
        if (a.isFloat()) {
          double x = a.real(at[0]), y = b.isFloat() ? b.real(at[1]) : (double)b.integer(at[1]);
          if (a.element().isF64() && y != 1 && y != 2 && y != -1)
            return std::nullopt;
          out.setReal(i, y == 2 ? x * x : y == -1 ? 1 / x : std::pow(x, y));
          continue;
        }
        if (b.isFloat())
          return std::nullopt;
        int64_t e = b.integer(at[1]);
        if (e < 0)
          return std::nullopt;
        uint64_t base = a.integer(at[0]), r = 1;
        for (; e; e >>= 1, base *= base)
          if (e & 1)
            r *= base;
        out.setInteger(i, (int64_t)r);
      }
      return single(std::move(out));
    });

EvaluatedResults realUnary(const HostTensor &x, double (*f)(double)) {
  HostTensor out(x.element(), x.shape());
  for (int64_t i = 0; i < x.size(); ++i)
    out.setReal(i, f(x.real(i)));
  return single(std::move(out));
}

RegisterEvaluator registerUnary(
    {"Neg", "Abs", "Sign", "Relu", "BitwiseNot", "Not"},
    [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0];
      if (isa<ComplexType>(x.element()) || !in.fits(x.element(), x.shape()))
        return std::nullopt;
      StringRef k = kind(op);
      HostTensor out(x.element(), x.shape());
      for (int64_t i = 0; i < x.size(); ++i) {
        if (x.isFloat()) {
          double v = x.real(i);
          out.setReal(i, k == "Neg"    ? -v
                         : k == "Abs"  ? std::fabs(v)
                         : k == "Relu" ? (v < 0 ? 0.0 : v)
                         : std::isnan(v) ? v
                                         : (double)((v > 0) - (v < 0)));
          continue;
        }
        int64_t v = x.integer(i);
        uint64_t neg = 0 - (uint64_t)v;
        bool u = x.isUnsigned();
        out.setInteger(i, k == "Neg"          ? (int64_t)neg
                          : k == "Abs"        ? (u || v >= 0 ? v : (int64_t)neg)
                          : k == "Relu"       ? (u || v >= 0 ? v : 0)
                          : k == "BitwiseNot" ? ~v
                          : k == "Not"        ? !v
                          : u                 ? v != 0
                                              : (v > 0) - (v < 0));
      }
      return single(std::move(out));
    });

// The C library is correct to well under one unit in double: after rounding to
// f32 its results do not depend on the machine. Above 4096 elements an
// operator is cheap enough where it is.
RegisterEvaluator registerRealUnary(
    {"Sqrt", "Floor", "Ceil", "Round", "Reciprocal", "Exp", "Log", "Sin", "Cos", "Tan", "Tanh",
     "Sigmoid", "Erf", "Atan"},
    [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0];
      if (!x.isFloat() || !in.fits(x.element(), x.shape()))
        return std::nullopt;
      StringRef k = kind(op);
      if (k == "Sqrt")
        return realUnary(x, [](double v) { return std::sqrt(v); });
      if (k == "Floor")
        return realUnary(x, [](double v) { return std::floor(v); });
      if (k == "Ceil")
        return realUnary(x, [](double v) { return std::ceil(v); });
      if (k == "Round")
        return realUnary(x, [](double v) { return std::nearbyint(v); });
      if (k == "Reciprocal")
        return realUnary(x, [](double v) { return 1 / v; });
      if (x.element().isF64())
        return std::nullopt;
      if (k == "Exp")
        return realUnary(x, [](double v) { return std::exp(v); });
      if (k == "Log")
        return realUnary(x, [](double v) { return std::log(v); });
      if (k == "Sin")
        return realUnary(x, [](double v) { return std::sin(v); });
      if (k == "Cos")
        return realUnary(x, [](double v) { return std::cos(v); });
      if (k == "Tan")
        return realUnary(x, [](double v) { return std::tan(v); });
      if (k == "Tanh")
        return realUnary(x, [](double v) { return std::tanh(v); });
      if (k == "Atan")
        return realUnary(x, [](double v) { return std::atan(v); });
      if (k == "Sigmoid")
        return realUnary(x, [](double v) { return 1 / (1 + std::exp(-v)); });
      return realUnary(x, [](double v) { return std::erf(v); });
    });

RegisterEvaluator registerIsNaN(
    {"IsNaN"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0];
      if (!x.isFloat())
        return std::nullopt;
      HostTensor out(IntegerType::get(op->getContext(), 1), x.shape());
      for (int64_t i = 0; i < x.size(); ++i)
        out.setInteger(i, std::isnan(x.real(i)));
      return single(std::move(out));
    });

RegisterEvaluator registerClip(
    {"Clip"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0];
      const HostTensor *lo = in[1], *hi = in[2];
      if (!in.fits(x.element(), x.shape()) || (lo && lo->size() != 1) || (hi && hi->size() != 1))
        return std::nullopt;
      HostTensor out(x.element(), x.shape());
      for (int64_t i = 0; i < x.size(); ++i) {
        if (x.isFloat()) {
          double v = x.real(i);
          if (lo && v < lo->real(0))
            v = lo->real(0);
          if (hi && v > hi->real(0))
            v = hi->real(0);
          out.setReal(i, v);
        } else {
          int64_t v = x.integer(i);
          auto less = [&](int64_t a, int64_t b) {
            return x.isUnsigned() ? (uint64_t)a < (uint64_t)b : a < b;
          };
          if (lo && less(v, lo->integer(0)))
            v = lo->integer(0);
          if (hi && less(hi->integer(0), v))
            v = hi->integer(0);
          out.setInteger(i, v);
        }
      }
      return single(std::move(out));
    });

RegisterEvaluator registerWhere(
    {"Where"}, [](Operation *, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &c = *in[0], &x = *in[1], &y = *in[2];
      auto xy = broadcastShapes(x.shape(), y.shape());
      auto shape = xy ? broadcastShapes(*xy, c.shape()) : std::nullopt;
      if (!shape || !in.fits(x.element(), *shape) || x.element() != y.element())
        return std::nullopt;
      HostTensor out(x.element(), *shape);
      BroadcastWalk at(*shape, {&c, &x, &y});
      size_t w = x.elementBytes();
      char *dst = out.mutableData();
      for (int64_t i = 0; i < out.size(); ++i, at.next())
        std::memcpy(dst + i * w,
                    c.integer(at[0]) ? x.data() + at[1] * w : y.data() + at[2] * w, w);
      return single(std::move(out));
    });

RegisterEvaluator registerCast(
    {"Cast", "CastLike"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      Type to = resultElement(op);
      if (!in.fits(to, in[0]->shape()))
        return std::nullopt;
      return single(in[0]->cast(to, getInt(op, "saturate", 1) != 0));
    });

} // namespace

} // namespace tessera::onnx
