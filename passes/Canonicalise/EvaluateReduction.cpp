// Reductions over constants: integers, and the floating-point ones whose result
// does not depend on the order of summation.
#include "passes/Canonicalise/Evaluate.h"

#include "dialects/Onnx/IR/OnnxUtils.h"

#include <cmath>

using namespace mlir;

namespace tessera::onnx {

namespace {

RegisterEvaluator registerReduce(
    {"ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"},
    [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0];
      StringRef kind = op->getName().stripDialect();
      bool extremum = kind == "ReduceMax" || kind == "ReduceMin";
      if (isa<ComplexType>(x.element()) || (x.isFloat() && !extremum) || x.size() == 0)
        return std::nullopt;
      SmallVector<bool> reduced(x.rank(), false);
      if (in[1] && in[1]->size())
        for (int64_t a : in[1]->integers()) {
          auto n = normaliseAxis(a, x.rank());
          if (!n)
            return std::nullopt;
          reduced[*n] = true;
        }
      else if (getInt(op, "noop_with_empty_axes", 0))
        return single(x);
      else
        reduced.assign(x.rank(), true);

      SmallVector<int64_t> kept, shape;
      for (int64_t a = 0; a < x.rank(); ++a) {
        kept.push_back(reduced[a] ? 1 : x.shape()[a]);
        if (!reduced[a] || getInt(op, "keepdims", 1))
          shape.push_back(kept.back());
      }
      HostTensor out(x.element(), shape);
      out.mutableData();
      std::vector<bool> seen(out.size());
      SmallVector<int64_t> from = rowMajorStrides(x.shape()), to = rowMajorStrides(kept);
      bool max = kind == "ReduceMax";
      for (int64_t i = 0; i < x.size(); ++i) {
        int64_t o = 0;
        for (int64_t a = 0; a < x.rank(); ++a)
          if (!reduced[a])
            o += i / from[a] % x.shape()[a] * to[a];
        if (x.isFloat()) {
          double v = x.real(i), old = out.real(o);
          if (!seen[o] || std::isnan(v) || (!std::isnan(old) && (max ? v > old : v < old)))
            out.setReal(o, v);
        } else {
          int64_t v = x.integer(i), old = out.integer(o);
          bool less = x.isUnsigned() ? (uint64_t)v < (uint64_t)old : v < old;
          bool more = x.isUnsigned() ? (uint64_t)v > (uint64_t)old : v > old;
          if (!seen[o])
            out.setInteger(o, v);
          else if (extremum)
            out.setInteger(o, (max ? more : less) ? v : old);
          else
            out.setInteger(o, kind == "ReduceSum" ? (int64_t)((uint64_t)old + (uint64_t)v)
                                                  : (int64_t)((uint64_t)old * (uint64_t)v));
        }
        seen[o] = true;
      }
      return single(std::move(out));
    });

} // namespace

} // namespace tessera::onnx
