// Einsum as Transpose, ReduceSum, Mul and MatMul.
//
// Operands are contracted from left to right. A term is a value with one label
// an axis; labels are the letters, and for the ellipsis numbers counted from
// the right, so that broadcasting aligns them.
//
//   "bij,bjk->bik"   MatMul
//   "ij,ij->i"       MatMul of [i,1,j] and [i,j,1]
//   "ii->i"          reshape [n,n] to [n*n], slice with step n+1
#include "passes/Canonicalise/OnnxBuilder.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tessera::onnx {

namespace {

using Labels = SmallVector<int>;

struct Term {
  Value value;
  Labels labels;
  int64_t dim(int label) const {
    auto it = llvm::find(labels, label);
    return rankedType(value).getDimSize(it - labels.begin());
  }
  bool has(int label) const { return llvm::is_contained(labels, label); }
};

// "ab...c": letters as themselves, the ellipsis as `kEllipsis`.
constexpr int kEllipsis = -1000;
std::optional<Labels> parseLabels(StringRef text) {
  Labels out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ')
      continue;
    if (text.substr(i).starts_with("...")) {
      if (llvm::is_contained(out, kEllipsis))
        return std::nullopt;
      out.push_back(kEllipsis);
      i += 2;
    } else if (llvm::isAlpha(text[i])) {
      out.push_back(text[i]);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

class Einsum {
public:
  Einsum(Operation *op, PatternRewriter &r) : op(op), b(r, op->getLoc()) {}

  // Everything that can fail is checked here, before anything is built.
  bool parse() {
    std::string text;
    for (char c : getString(op, "equation"))
      if (c != ' ')
        text += c;
    auto [inputs, output] = StringRef(text).split("->");
    bool implicit = !StringRef(text).contains("->");
    SmallVector<StringRef> parts;
    inputs.split(parts, ',');
    if (parts.size() != op->getNumOperands())
      return false;
    size_t ellipsisRank = 0;
    std::map<int, int> seen;
    for (auto [part, v] : llvm::zip(parts, op->getOperands())) {
      auto labels = parseLabels(part);
      RankedTensorType t = rankedType(v);
      if (!labels || !t)
        return false;
      bool dots = llvm::is_contained(*labels, kEllipsis);
      int64_t extra = t.getRank() - ((int64_t)labels->size() - dots);
      if (extra < 0 || (!dots && extra != 0))
        return false;
      ellipsisRank = std::max<size_t>(ellipsisRank, extra);
      Term term{v, {}};
      for (int l : *labels) {
        if (l != kEllipsis) {
          term.labels.push_back(l);
          continue;
        }
        for (int64_t k = extra; k > 0; --k)
          term.labels.push_back(-k);
      }
      for (int l : term.labels)
        ++seen[l];
      terms.push_back(term);
    }
    for (int64_t k = ellipsisRank; k > 0; --k)
      ellipsis.push_back(-k);
    if (implicit) {
      out = ellipsis;
      for (auto [l, n] : seen)
        if (l > 0 && n == 1)
          out.push_back(l);
    } else {
      auto labels = parseLabels(output);
      if (!labels)
        return false;
      for (int l : *labels)
        if (l == kEllipsis)
          out.append(ellipsis.begin(), ellipsis.end());
        else
          out.push_back(l);
    }
    for (size_t i = 0; i < out.size(); ++i)
      if (!seen.count(out[i]) || llvm::is_contained(ArrayRef<int>(out).take_front(i), out[i]))
        return false;
    // Diagonals and merged groups are reshaped by numbers.
    for (const Term &t : terms)
      for (size_t i = 0; i < t.labels.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (t.labels[i] == t.labels[j]) {
            RankedTensorType ty = rankedType(t.value);
            if (!ty.hasStaticShape() || ty.getDimSize(i) != ty.getDimSize(j))
              return false;
          }
    return true;
  }

  Value build() {
    for (Term &t : terms)
      while (diagonal(t))
        ;
    Term acc = terms[0];
    sumOut(acc, neededAfter(0));
    for (size_t i = 1; i < terms.size(); ++i) {
      Term next = terms[i];
      llvm::SetVector<int> later = neededAfter(i);
      llvm::SetVector<int> forNext = later, forAcc = later;
      forNext.insert(acc.labels.begin(), acc.labels.end());
      forAcc.insert(next.labels.begin(), next.labels.end());
      sumOut(next, forNext);
      sumOut(acc, forAcc);
      acc = contract(acc, next, later);
    }
    llvm::SetVector<int> wanted(out.begin(), out.end());
    sumOut(acc, wanted);
    return order(acc, out).value;
  }

private:
  // Labels of the output and of the terms after `i`.
  llvm::SetVector<int> neededAfter(size_t i) {
    llvm::SetVector<int> s(out.begin(), out.end());
    for (size_t k = i + 1; k < terms.size(); ++k)
      s.insert(terms[k].labels.begin(), terms[k].labels.end());
    return s;
  }

  bool diagonal(Term &t) {
    for (size_t i = 0; i < t.labels.size(); ++i)
      for (size_t j = i + 1; j < t.labels.size(); ++j) {
        if (t.labels[i] != t.labels[j])
          continue;
        SmallVector<int64_t> perm;
        for (size_t k = 0; k < t.labels.size(); ++k)
          if (k != i && k != j)
            perm.push_back(k);
        perm.append({(int64_t)i, (int64_t)j});
        Value v = b.transpose(t.value, perm);
        RankedTensorType ty = rankedType(v);
        int64_t n = ty.getShape().back();
        SmallVector<int64_t> shape(ty.getShape().drop_back(2));
        Labels labels;
        for (int64_t k : ArrayRef<int64_t>(perm).drop_back(2))
          labels.push_back(t.labels[k]);
        labels.push_back(t.labels[i]);
        shape.push_back(n * n);
        v = b.reshape(v, shape, ty.clone(shape));
        shape.back() = n;
        v = b.op("Slice", {v, b.ints({0}), b.ints({n * n}), b.ints({(int64_t)shape.size() - 1}),
                           b.ints({n + 1})},
                 ty.clone(shape));
        t = {v, labels};
        return true;
      }
    return false;
  }

  void sumOut(Term &t, const llvm::SetVector<int> &needed) {
    SmallVector<int64_t> axes;
    Labels kept;
    for (auto [a, l] : llvm::enumerate(t.labels))
      if (needed.contains(l))
        kept.push_back(l);
      else
        axes.push_back(a);
    if (axes.empty())
      return;
    t = {b.reduce("ReduceSum", t.value, axes, false), kept};
  }

  Term order(const Term &t, ArrayRef<int> labels) {
    SmallVector<int64_t> perm;
    for (int l : labels)
      perm.push_back(llvm::find(t.labels, l) - t.labels.begin());
    return {b.transpose(t.value, perm), Labels(labels)};
  }

  // The term with exactly `labels`, axes of length one where it has none.
  Value spread(const Term &t, ArrayRef<int> labels) {
    Labels own;
    SmallVector<int64_t> missing;
    for (auto [a, l] : llvm::enumerate(labels))
      if (t.has(l))
        own.push_back(l);
      else
        missing.push_back(a);
    return b.unsqueeze(order(t, own).value, missing);
  }

  Term contract(const Term &x, const Term &y, const llvm::SetVector<int> &later) {
    Labels batch, left, right, inner;
    bool unequal = false;
    for (int l : x.labels)
      if (!y.has(l))
        left.push_back(l);
      else if (later.contains(l))
        batch.push_back(l);
      else
        inner.push_back(l), unequal |= x.dim(l) != y.dim(l);
    for (int l : y.labels)
      if (!x.has(l))
        right.push_back(l);
    Labels all = batch;
    all.append(left);
    all.append(right);
    int64_t open = 0; // extents that the final reshape cannot copy
    for (int l : left)
      open += x.dim(l) < 0;
    for (int l : right)
      open += y.dim(l) < 0;
    bool regroup = left.size() > 1 || right.size() > 1;
    if (!inner.empty() && !unequal && (!regroup || open <= 1) && canMerge(x, left) && canMerge(x, inner) &&
        canMerge(y, right) && canMerge(y, inner) && isa<FloatType>(elementType(x.value)))
      return byMatMul(x, y, batch, left, right, inner);
    Labels wide = all;
    wide.append(inner);
    Term t{b.mul(spread(x, wide), spread(y, wide)), wide};
    llvm::SetVector<int> kept(all.begin(), all.end());
    sumOut(t, kept);
    return t;
  }

  // One axis is free; several become one by a reshape with static numbers.
  static bool canMerge(const Term &t, ArrayRef<int> group) {
    if (group.size() <= 1)
      return true;
    return rankedType(t.value).hasStaticShape();
  }

  static int64_t product(const Term &t, ArrayRef<int> group) {
    int64_t n = 1;
    for (int l : group)
      n *= t.dim(l);
    return n;
  }

  // [batch..., rows..., columns...] with rows and columns as one axis each.
  Value matrix(const Term &t, ArrayRef<int> batch, ArrayRef<int> rows, ArrayRef<int> columns) {
    Labels labels(batch);
    labels.append(rows.begin(), rows.end());
    labels.append(columns.begin(), columns.end());
    Value v = order(t, labels).value;
    if (rows.size() == 1 && columns.size() == 1)
      return v;
    RankedTensorType ty = rankedType(v);
    SmallVector<int64_t> shape(ty.getShape().take_front(batch.size()));
    if (!ty.hasStaticShape()) { // a group without axes: only unsqueeze is needed
      SmallVector<int64_t> axes;
      if (rows.empty())
        axes.push_back(batch.size());
      if (columns.empty())
        axes.push_back(batch.size() + 1);
      return b.unsqueeze(v, axes);
    }
    shape.push_back(product(t, rows));
    shape.push_back(product(t, columns));
    return b.reshape(v, shape, ty.clone(shape));
  }

  Term byMatMul(const Term &x, const Term &y, ArrayRef<int> batch, ArrayRef<int> left,
                ArrayRef<int> right, ArrayRef<int> inner) {
    Value m = b.matmul(matrix(x, batch, left, inner), matrix(y, batch, inner, right));
    Labels labels(batch);
    labels.append(left.begin(), left.end());
    labels.append(right.begin(), right.end());
    if (left.size() == 1 && right.size() == 1)
      return {m, labels};
    RankedTensorType ty = rankedType(m);
    SmallVector<int64_t> shape(ty.getShape().take_front(batch.size()));
    for (int l : left)
      shape.push_back(x.dim(l));
    for (int l : right)
      shape.push_back(y.dim(l));
    RankedTensorType wanted = ty.clone(shape);
    if (wanted.hasStaticShape() || left.size() > 1 || right.size() > 1) {
      for (auto [i, d] : llvm::enumerate(shape))
        if (ShapedType::isDynamic(d))
          d = i < batch.size() ? 0 : -1; // 0 copies the extent of that axis
      return {b.reshape(m, shape, wanted), labels};
    }
    SmallVector<int64_t> axes;
    if (left.empty())
      axes.push_back(batch.size());
    if (right.empty())
      axes.push_back(batch.size() + 1);
    return {b.squeeze(m, axes), labels};
  }

  Operation *op;
  OnnxBuilder b;
  SmallVector<Term> terms;
  Labels ellipsis, out;
};

} // namespace

/// ReduceSum has no integers of 8 and 16 bits; sums of wider ones wrap to the same.
static LogicalResult widenEinsum(Operation *op, IntegerType narrow, PatternRewriter &r) {
  OnnxBuilder b(r, op->getLoc());
  Type wide = IntegerType::get(op->getContext(), 32, narrow.getSignedness());
  SmallVector<Value> operands;
  for (Value v : op->getOperands())
    operands.push_back(b.cast(v, wide));
  Value y = b.op("Einsum", operands, rankedType(op->getResult(0)).clone(wide), op->getAttrs());
  replaceRefining(r, op, b.cast(y, narrow));
  return success();
}

LogicalResult decomposeEinsum(Operation *op, PatternRewriter &r) {
  auto narrow = rankedType(op->getResult(0)) ? dyn_cast<IntegerType>(elementType(op->getResult(0))) : IntegerType();
  if (narrow && narrow.getWidth() < 32)
    return widenEinsum(op, narrow, r);
  Einsum e(op, r);
  if (!e.parse())
    return failure();
  replaceRefining(r, op, e.build());
  return success();
}

} // namespace tessera::onnx
