// tessera.TreeEnsemble: tables are described in passes/Canonicalise/LowerTrees.cpp.
//
// Row by row, tree by tree; sums in double. Scratch: one double a target.
#include "targets/Cpu/Kernels/Combine.h"
#include "targets/Cpu/Kernels/RootView.h"
#include "targets/Cpu/Math.h"

using namespace mlir;
using tessera::onnx::Sym;

namespace tessera::cpu {
namespace {

using P = arith::CmpFPredicate;

int64_t option(Operation *root, StringRef name) {
  auto attrs = root->getAttrOfType<DictionaryAttr>("attrs");
  auto value = attrs ? attrs.getAs<IntegerAttr>(name) : IntegerAttr();
  return value ? value.getInt() : 0;
}

class TreesKernel final : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Loops; }
  LogicalResult match(Operation *root, Reasons &reasons) const override {
    return success(requireNumeric(root, reasons));
  }
  Sym scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const override {
    return sizes.ctx.mul(sizes.results.back().back(), sizes.ctx.constant(8));
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override;
};
TESSERA_KERNEL(TreesKernel, "tessera.TreeEnsemble");

class TreeEmitter {
public:
  explicit TreeEmitter(RootView &v) : v(v), e(v.e) {}
  LogicalResult run();

private:
  Value d(double x) { return e.floatConst(e.f64(), x); }
  Value i32At(const TensorRef &t, Value i) { return toIndex(e, e.loadElement(t, i)); }
  Value leafOf(Value root, Value row);
  Value score(Value k) { return e.rawLoad(e.f64(), e.gep(e.scratch, e.f64(), k)); }
  void setScore(Value k, Value x) { e.rawStore(x, e.gep(e.scratch, e.f64(), k)); }
  void postTransform(int64_t post);
  Value logistic(Value x) { return math::sigmoid(e, x); }
  Value probit(Value x);
  Value feature(Value row, Value f);

  RootView &v;
  KernelEmitter &e;
  const TensorRef *x, *roots, *nodes, *splits, *leafBegin, *targets, *weights, *base, *labels;
  Value count; ///< of targets
};

Value TreeEmitter::feature(Value row, Value f) {
  Value offset = x->rank() == 2 ? e.add(e.mul(row, x->strides[0]), e.mul(f, x->strides[1])) : e.mul(f, x->strides[0]);
  Value value = e.loadElement(*x, offset);
  Type type = KernelEmitter::valueType(splits->element);
  return value.getType() == type ? value : e.cast(value, x->element, splits->element);
}

Value TreeEmitter::leafOf(Value root, Value row) {
  return e.whileLoop(
      {root}, [&](ValueRange c) { return e.cmp(arith::CmpIPredicate::sge, c[0], e.idx(0)); },
      [&](ValueRange c) -> SmallVector<Value> {
        Value at = e.mul(c[0], 4);
        Value f = i32At(*nodes, at), mode = i32At(*nodes, e.add(at, 1));
        Value value = feature(row, f), split = e.loadElement(*splits, c[0]);
        // Ordered comparisons combine to all six modes.
        Value less = e.cmpF(P::OLT, value, split), equal = e.cmpF(P::OEQ, value, split), more = e.cmpF(P::OGT, value, split);
        Value nan = e.cmpF(P::UNO, value, value);
        Value kind = arith::AndIOp::create(e.b, e.loc, mode, e.idx(7));
        auto is = [&](int64_t k) { return e.eq(kind, e.idx(k)); };
        auto either = [&](Value a, Value b) { return e.logicalOr(a, b); };
        Value taken = e.select(is(0), either(less, equal), less);
        taken = e.select(is(2), either(more, equal), taken);
        taken = e.select(is(3), more, taken);
        taken = e.select(is(4), equal, taken);
        taken = e.select(is(5), e.logicalNot(either(equal, nan)), taken);
        Value nanTrue = e.cmp(arith::CmpIPredicate::sge, mode, e.idx(8));
        taken = e.select(nan, nanTrue, taken);
        return {i32At(*nodes, e.add(at, e.select(taken, e.idx(2), e.idx(3))))};
      })[0];
}

Value TreeEmitter::probit(Value x) {
  // sqrt(2) * erfinv(2 x - 1), Winitzki's approximation as in the reference.
  Value y = e.subF(e.mulF(x, d(2)), d(1));
  Value sign = e.select(e.cmpF(P::OLT, y, d(0)), d(-1), d(1));
  Value rest = e.mulF(e.subF(d(1), y), e.addF(d(1), y));
  Value log = math::log(e, rest);
  Value a = e.addF(d(2 / (3.14159265358979323846 * 0.147)), e.mulF(d(0.5), log));
  Value inner = math::sqrt(e, e.subF(e.mulF(a, a), e.mulF(d(1 / 0.147), log)));
  Value root = math::sqrt(e, e.subF(inner, a));
  Value result = e.select(e.cmpF(P::OEQ, rest, d(0)), d(0), e.mulF(sign, root));
  return e.mulF(d(1.41421356), result);
}

void TreeEmitter::postTransform(int64_t post) {
  if (post == 2 || post == 4) {
    e.forLoop(count, [&](Value k) { setScore(k, post == 2 ? logistic(score(k)) : probit(score(k))); });
    return;
  }
  if (post != 1 && post != 3)
    return;
  Value most = e.forLoop(e.idx(0), count, e.idx(1), ValueRange{d(-INFINITY)}, [&](Value k, ValueRange c) -> SmallVector<Value> {
    return {e.maxF(c[0], score(k))};
  })[0];
  Value sum = e.forLoop(e.idx(0), count, e.idx(1), ValueRange{d(0)}, [&](Value k, ValueRange c) -> SmallVector<Value> {
    Value s = score(k), t = math::exp(e, e.subF(s, most));
    if (post == 3) { // scores of zero stay small
      Value tiny = e.cmpF(P::OLE, math::abs(e, s), d(0.0000001));
      t = e.select(tiny, e.mulF(s, math::exp(e, e.subF(d(0), most))), t);
    }
    setScore(k, t);
    return {e.addF(c[0], t)};
  })[0];
  Value none = e.cmpF(P::OEQ, sum, d(0));
  e.forLoop(count, [&](Value k) { setScore(k, e.select(none, d(0.5), e.divF(score(k), e.select(none, d(1), sum)))); });
}

LogicalResult TreeEmitter::run() {
  const TensorRef **places[] = {&x, &roots, &nodes, &splits, &leafBegin, &targets, &weights, &base};
  for (auto [i, place] : llvm::enumerate(places))
    if (!(*place = v.in(i)))
      return failure();
  bool classifier = option(v.root, "classifier"), binary = option(v.root, "binary"), positive = option(v.root, "positive");
  int64_t aggregate = option(v.root, "aggregate"), post = option(v.root, "post");
  labels = classifier ? v.in(8) : nullptr;
  const TensorRef *labelOut = classifier ? v.out(0) : nullptr, *out = v.out(classifier ? 1 : 0);
  if (!e.scratch || (classifier && !labels))
    return failure();
  count = base->dims[0];
  Value rows = x->rank() == 2 ? x->dims[0] : e.idx(1);
  Value fits = e.cmp(arith::CmpIPredicate::sge, x->dims.back(), e.idx(option(v.root, "features")));
  e.failIf(e.logicalNot(fits), TSR_KERNEL_BAD_VALUE);
  double most = splits->element.isF64() ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  e.ifThen(fits, [&] {
    e.forLoop(rows, [&](Value row) {
      Value start = d(aggregate == 2 ? most : aggregate == 3 ? -most : 0);
      e.forLoop(count, [&](Value k) { setScore(k, start); });
      e.forLoop(roots->dims[0], [&](Value tree) {
        Value leaf = e.sub(e.idx(-1), leafOf(i32At(*roots, tree), row));
        e.forLoop(i32At(*leafBegin, leaf), i32At(*leafBegin, e.add(leaf, 1)), e.idx(1), [&](Value entry) {
          Value k = i32At(*targets, entry), w = e.loadElement(*weights, entry);
          if (!w.getType().isF64())
            w = arith::ExtFOp::create(e.b, e.loc, e.f64(), w);
          Value old = score(k);
          setScore(k, aggregate == 2 ? e.minF(old, w) : aggregate == 3 ? e.maxF(old, w) : e.addF(old, w));
        });
      });
      e.forLoop(count, [&](Value k) {
        Value s = score(k);
        if (aggregate == 0)
          s = e.divF(s, arith::SIToFPOp::create(e.b, e.loc, e.f64(), roots->dims[0]));
        Value b = e.loadElement(*base, k);
        if (!b.getType().isF64())
          b = arith::ExtFOp::create(e.b, e.loc, e.f64(), b);
        setScore(k, e.addF(s, b));
      });
      Value label;
      if (binary) { // one score for two classes
        Value s = e.addF(score(e.idx(0)), score(e.idx(1)));
        Value second = e.cmpF(P::OGT, s, d(positive ? 0.5 : 0));
        label = e.select(second, e.idx(1), e.idx(0));
        if (post == 4) {
          setScore(e.idx(0), e.subF(d(1), probit(s)));
          setScore(e.idx(1), probit(s));
        } else if (positive) {
          setScore(e.idx(0), e.subF(d(1), s));
          setScore(e.idx(1), s);
        } else if (post == 2) {
          setScore(e.idx(0), logistic(e.subF(d(0), s)));
          setScore(e.idx(1), logistic(s));
        } else {
          setScore(e.idx(0), e.subF(d(0), s));
          setScore(e.idx(1), s);
          postTransform(post);
        }
      } else {
        if (classifier)
          label = e.forLoop(e.idx(1), count, e.idx(1), ValueRange{e.idx(0), score(e.idx(0))}, [&](Value k, ValueRange c) -> SmallVector<Value> {
            Value s = score(k), more = e.cmpF(P::OGT, s, c[1]);
            return {e.select(more, k, c[0]), e.select(more, s, c[1])};
          })[0];
        postTransform(post);
      }
      if (labelOut)
        e.store(*labelOut, {row}, e.load(*labels, {label}));
      if (out)
        e.forLoop(count, [&](Value k) {
          Value s = score(k);
          Type type = KernelEmitter::valueType(out->element);
          if (type != s.getType())
            s = arith::TruncFOp::create(e.b, e.loc, type, s);
          e.store(*out, {row, k}, e.round(s, out->element));
        });
    });
  });
  return success();
}

LogicalResult TreesKernel::emit(tsr::DispatchOp op, KernelEmitter &e) const {
  RootView v(op, e);
  return TreeEmitter(v).run();
}

} // namespace
} // namespace tessera::cpu
