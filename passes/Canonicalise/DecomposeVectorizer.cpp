// TfIdfVectorizer on integers: every n-gram of the pool is compared with every
// window of the input.
//
//   for each length n and distance d (n elements, d apart):
//     hit[l, g]  = and over k of X[l + k d] == pool[g][k]
//     count[g]  += sum over l of hit[l, g]
//   Y[index[g]] = count[g], weighted
#include "passes/Canonicalise/DecomposeMl.h"

#include "dialects/Onnx/IR/Unsupported.h"

#include "llvm/ADT/DenseSet.h"

#include <set>

using namespace mlir;

namespace tessera::onnx {

namespace {

struct Pool {
  /// n-grams of `length` elements each, in the order of their numbers.
  struct Part {
    int64_t length = 0, count = 0, first = 0; ///< first: number of the first n-gram
    std::vector<int64_t> elements;
  };
  std::vector<Part> parts;
};

/// The n-grams between the shortest and the longest length that is wanted.
std::optional<Pool> readPool(Operation *op, int64_t shortest, int64_t longest) {
  SmallVector<int64_t> items = getInts(op, "pool_int64s"), starts = getInts(op, "ngram_counts");
  Pool pool;
  int64_t number = 0, n = items.size();
  for (size_t k = 0; k < starts.size(); ++k) {
    int64_t begin = starts[k], end = k + 1 < starts.size() ? starts[k + 1] : n, length = k + 1;
    if (begin < 0 || end < begin || end > n || (end - begin) % length != 0)
      return std::nullopt;
    Pool::Part part{length, (end - begin) / length, number, {}};
    number += part.count;
    part.elements.assign(items.begin() + begin, items.begin() + end);
    std::set<std::vector<int64_t>> seen; // of two equal ones only the last would count
    for (int64_t g = 0; g < part.count; ++g)
      if (!seen.emplace(part.elements.begin() + g * length, part.elements.begin() + (g + 1) * length).second)
        return std::nullopt;
    if (part.count && length >= shortest && length <= longest)
      pool.parts.push_back(std::move(part));
  }
  return number == (int64_t)getInts(op, "ngram_indexes").size() ? std::optional(pool) : std::nullopt;
}

/// int64 [..., count] of the n-grams of `part` in `x`, elements `distance` apart.
Value countGrams(OnnxBuilder &b, Value x, const Pool::Part &part, int64_t distance) {
  RankedTensorType t = rankedType(x);
  int64_t axis = t.getRank() - 1, span = (part.length - 1) * distance, size = t.getDimSize(axis);
  bool open = ShapedType::isDynamic(size);
  int64_t windows = open ? size : std::max<int64_t>(size - span, 0);
  Value hit;
  for (int64_t k = 0; k < part.length; ++k) {
    SmallVector<int64_t> shape(t.getShape());
    shape[axis] = windows;
    int64_t stop = k * distance - span;
    Value slice = b.op("Slice", {x, b.ints({k * distance}), b.ints({stop == 0 ? INT64_MAX : stop}), b.ints({axis})},
                       t.clone(shape));
    HostTensor column(b.attrs().getI64Type(), {part.count});
    column.mutableData();
    for (int64_t g = 0; g < part.count; ++g)
      column.setInteger(g, part.elements[g * part.length + k]);
    Value wide = b.unsqueeze(slice, {t.getRank()});
    shape.push_back(part.count);
    Type bits = RankedTensorType::get(shape, b.attrs().getI1Type());
    Value same = equalKeys(b, wide, column);
    hit = hit ? b.op("And", {hit, same}, bits) : same;
  }
  return b.reduce("ReduceSum", b.cast(hit, b.attrs().getI64Type()), {axis}, false);
}

} // namespace

LogicalResult decomposeTfIdf(Operation *op, PatternRewriter &r) {
  Value x = operand(op, 0);
  int64_t shortest = getInt(op, "min_gram_length", 0), longest = getInt(op, "max_gram_length", 0),
          skips = getInt(op, "max_skip_count", 0);
  StringRef mode = getString(op, "mode");
  RankedTensorType t = rankedType(x);
  if (t && isa<StringType>(t.getElementType()))
    return failure(); // LowerStrings.cpp has a rule for it
  if (!t || t.getRank() < 1 || t.getRank() > 2 || !isa<IntegerType>(t.getElementType()))
    return unsupportedInput(op, 0, "expected integers of rank 1 or 2");
  if (shortest < 1 || longest < shortest)
    return unsupportedAttribute(op, "min_gram_length", "expected from 1 to max_gram_length, " + Twine(longest));
  if (skips < 0 || skips > 64)
    return unsupportedAttribute(op, "max_skip_count", "expected from 0 to 64");
  if (!getStrings(op, "pool_strings").empty())
    return unsupportedAttribute(op, "pool_strings", "the input has integers");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    return unsupportedAttribute(op, "mode", "expected TF, IDF or TFIDF");
  SmallVector<int64_t> places = getInts(op, "ngram_indexes");
  auto pool = readPool(op, shortest, longest);
  if (!pool)
    return unsupported(op, "its pool and ngram_counts do not fit each other");
  if (places.empty())
    return unsupportedAttribute(op, "ngram_indexes", "a place for each n-gram is expected");
  int64_t width = 0;
  std::set<int64_t> seen;
  for (int64_t p : places) {
    if (p < 0 || p >= (1 << 24) || !seen.insert(p).second)
      return unsupportedAttribute(op, "ngram_indexes", "place " + Twine(p) + " is given twice or out of range");
    width = std::max(width, p + 1);
  }
  SmallVector<float> weights = getFloats(op, "weights");
  if (!weights.empty() && weights.size() != places.size())
    return unsupportedAttribute(op, "weights", Twine(places.size()) + " values are expected");

  OnnxBuilder b(r, op->getLoc());
  Type f32 = r.getF32Type(), i64 = r.getI64Type();
  SmallVector<Value> counts;
  std::vector<int64_t> source(width, 0); // column of the joined counts; 0 is the column of zeros
  SmallVector<int64_t> shape(t.getShape().drop_back());
  shape.push_back(1);
  int64_t column = 1;
  for (const Pool::Part &part : pool->parts) {
    Value sum;
    // Single elements have no distance: they count once.
    for (int64_t d = 1; d <= (part.length == 1 ? 1 : skips + 1); ++d) {
      Value c = countGrams(b, x, part, d);
      sum = sum ? b.add(sum, c) : c;
    }
    counts.push_back(sum);
    for (int64_t g = 0; g < part.count; ++g)
      source[places[part.first + g]] = column++;
  }
  auto joined = [&](int64_t n) {
    SmallVector<int64_t> s(shape);
    s.back() = n;
    return RankedTensorType::get(s, i64);
  };
  Value zeros;
  if (counts.empty()) // nothing can be found: zeros in the shape of the rows
    zeros = b.mul(b.reduce("ReduceSum", b.cast(x, i64), {t.getRank() - 1}, true), b.ints({0}));
  else
    zeros = b.mul(b.reduce("ReduceMax", counts[0], {rankedType(counts[0]).getRank() - 1}, true), b.ints({0}));
  counts.insert(counts.begin(), zeros);
  Value all = b.op("Concat", counts, joined(column), {b.i("axis", (int64_t)shape.size() - 1)});
  Value y = b.op("Gather", {all, b.ints(source)}, joined(width), {b.i("axis", (int64_t)shape.size() - 1)});
  if (mode == "IDF")
    y = b.binary("Min", y, b.ints({1}));
  y = b.cast(y, f32);
  if (mode != "TF" && !weights.empty()) {
    HostTensor w(f32, {width});
    w.mutableData();
    for (size_t g = 0; g < places.size(); ++g) // weights belong to n-grams, not to columns
      w.setReal(places[g], weights[g]);
    y = b.mul(y, b.weight(w));
  }
  replaceRefining(r, op, y);
  return success();
}

} // namespace tessera::onnx
