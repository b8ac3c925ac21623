// Operators on tensors of strings, see Aggregates.h: [D] strings are int32
// [D, W], code points with zeros behind.
#include "passes/Canonicalise/Aggregates.h"
#include "passes/Canonicalise/DecomposeMl.h"
#include "passes/Canonicalise/Strings.h"

#include "dialects/Onnx/IR/OpsCore.h"
#include "dialects/Onnx/IR/Unsupported.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/ConvertUTF.h"

using namespace mlir;

namespace tessera::onnx {

std::optional<HostTensor> encodeStrings(ArrayRef<StringRef> strings, ArrayRef<int64_t> shape, MLIRContext *ctx) {
  if ((int64_t)strings.size() != elementCount(shape))
    return std::nullopt;
  std::vector<std::vector<int32_t>> all;
  size_t width = 0;
  for (StringRef s : strings) {
    std::vector<llvm::UTF32> points(s.size());
    auto *from = reinterpret_cast<const llvm::UTF8 *>(s.data());
    llvm::UTF32 *to = points.data();
    if (llvm::ConvertUTF8toUTF32(&from, from + s.size(), &to, to + points.size(), llvm::strictConversion) !=
        llvm::conversionOK)
      return std::nullopt;
    points.resize(to - points.data());
    if (llvm::is_contained(points, 0u)) // stands for the end
      return std::nullopt;
    all.emplace_back(points.begin(), points.end());
    width = std::max(width, all.back().size());
  }
  SmallVector<int64_t> dims(shape);
  dims.push_back(width);
  HostTensor out(IntegerType::get(ctx, 32), dims);
  out.mutableData();
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = 0; k < all[i].size(); ++k)
      out.setInteger(i * width + k, all[i][k]);
  return out;
}

int64_t charRank(Value chars) { return rankedType(chars).getRank() - 1; }
Value charWidth(ShapeBuilder &b, Value chars) { return b.sizeOf(chars, charRank(chars)); }

std::pair<Value, Value> sameWidth(ShapeBuilder &b, Value x, Value y) {
  Value wx = charWidth(b, x), wy = charWidth(b, y), most = b.binary("Max", wx, wy);
  auto pad = [&](Value v, Value width) {
    int64_t rank = rankedType(v).getRank();
    Value pads = b.concat({b.ints(SmallVector<int64_t>(2 * rank - 1, 0)), b.sub(most, width)});
    SmallVector<int64_t> shape(rankedType(v).getShape());
    shape.back() = ShapedType::kDynamic;
    return b.op("Pad", {v, pads}, rankedType(v).clone(shape));
  };
  return {pad(x, wx), pad(y, wy)};
}

Value sameStrings(ShapeBuilder &b, Value x, Value y) {
  std::tie(x, y) = sameWidth(b, x, y);
  Value same = b.compare("Equal", x, y);
  // Without a character they agree: the least of nothing is the largest number.
  Value all = b.reduce("ReduceMin", b.cast(same, b.i32()), {rankedType(same).getRank() - 1}, false);
  return b.cast(all, b.i1());
}

Value lengths(ShapeBuilder &b, Value chars) {
  Value used = b.cast(b.compare("Greater", chars, b.scalar(b.i32(), 0)), b.i64());
  return b.reduce("ReduceSum", used, {charRank(chars)}, true);
}

/// [D, W] as [N, W].
static Value rows(ShapeBuilder &b, Value chars) {
  Value shape = b.shapeOf(chars);
  Value n = b.reduce("ReduceProd", b.slice(shape, b.one(0), b.one(charRank(chars))), {0}, true);
  return b.reshapeTo(chars, b.concat({n, charWidth(b, chars)}), 2);
}

/// 0, 1, ... down a column or along more axes: [count, 1, ...] of `rank` axes.
static Value ladder(ShapeBuilder &b, Value count, int64_t rank) {
  Value v = b.range(count);
  SmallVector<int64_t> axes;
  for (int64_t k = 1; k < rank; ++k)
    axes.push_back(k);
  return b.unsqueeze(v, axes);
}

/// The character of row n at `at` (clamped into the row), zero where not `inside`.
static Value pick(ShapeBuilder &b, Value chars, Value at, Value inside) {
  Value width = charWidth(b, chars), row = ladder(b, b.sizeOf(chars, 0), rankedType(at).getRank());
  Value last = b.binary("Max", b.sub(width, b.one(1)), b.one(0));
  Value index = b.add(b.mul(row, width), b.binary("Max", b.binary("Min", at, last), b.one(0)));
  return b.where(inside, b.gather(b.flat(chars), index), b.scalar(b.i32(), 0));
}

// encodeStrings() gave nothing.
static LogicalResult badStrings(Operation *op) {
  return unsupported(op, "a constant string is not UTF-8, or has the character 0");
}

//===-- Constants, movement -------------------------------------------------===//

TESSERA_AGGREGATE_RULE(Weight, "Weight") {
  auto attr = cast<WeightOp>(op).getValue();
  auto strings = getConstantStrings(op->getResult(0));
  if (!strings)
    return failure();
  SmallVector<StringRef> list(strings->begin(), strings->end());
  auto t = encodeStrings(list, cast<ShapedType>(attr.getType()).getShape(), op->getContext());
  if (!t)
    return badStrings(op);
  a.set(op->getResult(0), {b.weight(*t)});
  return success();
}

TESSERA_AGGREGATE_RULE(Reshape, "Reshape") {
  Value chars = a.part(op->getOperand(0)), shape = op->getOperand(1);
  RankedTensorType t = rankedType(shape);
  auto known = getConstantInts(shape);
  // -1 could not be told in a tensor without characters; 0 copies an extent.
  if (!t || t.isDynamicDim(0) || !known)
    return unsupported(op, "the shape of a tensor of strings has to be constant");
  if (llvm::is_contained(*known, -1))
    return unsupported(op, "the shape of a tensor of strings has -1");
  if (getInt(op, "allowzero", 0))
    return unsupportedAttribute(op, "allowzero", "not supported on strings");
  SmallVector<Value> parts;
  for (auto [k, n] : llvm::enumerate(*known))
    parts.push_back(n ? b.one(n) : b.sizeOf(chars, k));
  parts.push_back(charWidth(b, chars));
  a.set(op->getResult(0), {b.reshapeTo(chars, b.concat(parts), parts.size())});
  return success();
}

static std::optional<SmallVector<int64_t>> axesOf(Operation *op, int64_t rank) {
  auto axes = getConstantInts(getOptionalOperand(op, 1));
  if (axes)
    for (int64_t &x : *axes)
      x += x < 0 ? rank : 0;
  return axes;
}

TESSERA_AGGREGATE_RULE(Unsqueeze, "Unsqueeze") {
  Value chars = a.part(op->getOperand(0));
  auto axes = getOptionalOperand(op, 1) ? axesOf(op, 0) : std::nullopt;
  if (!axes)
    return unsupportedInput(op, 1, "the axes have to be constant on strings");
  for (int64_t &x : *axes)
    x += x < 0 ? charRank(chars) + (int64_t)axes->size() : 0;
  a.set(op->getResult(0), {b.unsqueeze(chars, *axes)});
  return success();
}

TESSERA_AGGREGATE_RULE(Squeeze, "Squeeze") {
  Value chars = a.part(op->getOperand(0));
  auto axes = getOptionalOperand(op, 1) ? axesOf(op, charRank(chars)) : std::nullopt;
  if (!axes)
    return unsupportedInput(op, 1, "the axes have to be constant on strings");
  a.set(op->getResult(0), {b.squeeze(chars, *axes)});
  return success();
}

TESSERA_AGGREGATE_RULE(Gather, "Gather") {
  Value chars = a.part(op->getOperand(0));
  int64_t axis = getInt(op, "axis", 0);
  axis += axis < 0 ? charRank(chars) : 0;
  if (!rankedType(op->getOperand(1)))
    return unsupportedInput(op, 1, "its rank is not known");
  if (axis < 0 || axis >= charRank(chars))
    return unsupportedAttribute(op, "axis", "the input has rank " + Twine(charRank(chars)));
  a.set(op->getResult(0), {b.gather(chars, op->getOperand(1), axis)});
  return success();
}

TESSERA_AGGREGATE_RULE(Concat, "Concat") {
  Value all;
  for (Value v : op->getOperands()) {
    Value chars = a.part(v);
    int64_t axis = getInt(op, "axis", 0);
    axis += axis < 0 ? charRank(chars) : 0;
    if (all) {
      auto [x, y] = sameWidth(b, all, chars);
      all = b.concat({x, y}, axis);
    } else {
      all = chars;
    }
  }
  a.set(op->getResult(0), {all});
  return success();
}

//===-- Comparison, joining -------------------------------------------------===//

TESSERA_AGGREGATE_RULE(Equal, "Equal") {
  a.set(op->getResult(0), {sameStrings(b, a.part(op->getOperand(0)), a.part(op->getOperand(1)))});
  return success();
}

TESSERA_AGGREGATE_RULE(StringConcat, "StringConcat") {
  Value x = a.part(op->getOperand(0)), y = a.part(op->getOperand(1));
  int64_t rank = std::max(charRank(x), charRank(y));
  // Each to the common shape: Expand broadcasts both ways.
  auto shapeBut = [&](Value v) { return b.concat({b.slice(b.shapeOf(v), b.one(0), b.one(-1)), b.one(1)}); };
  Value sx = shapeBut(x), sy = shapeBut(y);
  x = b.expandTo(x, sy, rank + 1);
  y = b.expandTo(y, sx, rank + 1);
  Value lead = b.slice(b.shapeOf(x), b.one(0), b.one(rank));
  x = rows(b, x);
  y = rows(b, y);
  Value wx = charWidth(b, x), wy = charWidth(b, y), both = b.concat({x, y}, 1), width = b.add(wx, wy);
  Value j = b.range(width), first = lengths(b, x), second = b.sub(j, first); // [N, width]
  Value inFirst = b.compare("Less", j, first);
  Value at = b.where(inFirst, j, b.add(second, wx));
  Value inside = b.compare("Less", second, wy);
  Value out = pick(b, both, at, inside);
  a.set(op->getResult(0), {b.reshapeTo(out, b.concat({lead, width}), rank + 1)});
  return success();
}

//===-- Lookup --------------------------------------------------------------===//

namespace {

bool repeats(ArrayRef<StringRef> list) { return llvm::StringSet<>(llvm::from_range, list).size() != list.size(); }

/// Keys of a lookup; none, and the reason on `op`, where two are equal.
std::optional<HostTensor> stringList(Operation *op, StringRef what) {
  SmallVector<StringRef> list = getStrings(op, (what + "s").str());
  if (list.empty())
    list = getStrings(op, (what + "_strings").str());
  if (auto t = op->getAttrOfType<DenseStringElementsAttr>((what + "_tensor").str()))
    list.assign(t.getValues<StringRef>().begin(), t.getValues<StringRef>().end());
  std::optional<HostTensor> keys;
  if (list.empty())
    (void)unsupported(op, "it has no list of strings to look up in");
  else if (repeats(list))
    (void)unsupported(op, "two of its keys are equal, and runtimes differ on which counts");
  else if (!(keys = encodeStrings(list, {(int64_t)list.size()}, op->getContext())))
    (void)badStrings(op);
  return keys;
}

/// [D, K]: which of the keys [K, W] each string is.
Value hits(ShapeBuilder &b, Value chars, const HostTensor &keys) {
  return sameStrings(b, b.unsqueeze(chars, {charRank(chars)}), b.weight(keys));
}

} // namespace

TESSERA_AGGREGATE_RULE(LabelEncoder, "ml.LabelEncoder") {
  Value x = op->getOperand(0);
  bool fromStrings = Aggregates::isAggregate(x.getType()), toStrings = Aggregates::isAggregate(op->getResult(0).getType());
  if (!rankedType(x))
    return unsupportedInput(op, 0, "its rank is not known");
  Value hit;
  if (fromStrings) {
    auto keys = stringList(op, "keys");
    if (!keys)
      return failure();
    hit = hits(b, a.part(x), *keys);
  } else {
    hit = encoderHits(op, x, b);
    if (!hit)
      return failure();
  }
  std::optional<HostTensor> table;
  if (toStrings) {
    SmallVector<StringRef> values = getStrings(op, "values_strings");
    StringRef fallback = getString(op, "default_string", "_Unused");
    if (auto t = op->getAttrOfType<DenseStringElementsAttr>("values_tensor")) {
      values.assign(t.getValues<StringRef>().begin(), t.getValues<StringRef>().end());
      if (auto d = op->getAttrOfType<DenseStringElementsAttr>("default_tensor"); d && d.getNumElements() == 1)
        fallback = *d.getValues<StringRef>().begin();
    }
    values.insert(values.begin(), fallback);
    table = encodeStrings(values, {(int64_t)values.size()}, op->getContext());
    if (!table)
      return badStrings(op);
  } else {
    Builder attrs(op->getContext());
    table = encoderTable(op, attrs);
    if (!table)
      return failure(); // said there
  }
  RankedTensorType t = rankedType(hit);
  if (int64_t keys = t.getDimSize(t.getRank() - 1); keys + 1 != table->shape()[0])
    return unsupported(op, Twine(keys) + " keys for " + Twine(table->shape()[0] - 1) + " values");
  a.set(op->getResult(0), {pickByHit(b, hit, *table)});
  return success();
}

TESSERA_AGGREGATE_RULE(CategoryMapper, "ml.CategoryMapper") {
  Value x = op->getOperand(0), hit;
  SmallVector<StringRef> words = getStrings(op, "cats_strings");
  SmallVector<int64_t> numbers = getInts(op, "cats_int64s");
  int64_t n = words.size();
  if (words.size() != numbers.size() || words.empty())
    return unsupported(op, Twine(words.size()) + " words for " + Twine(numbers.size()) + " numbers");
  if (!rankedType(x))
    return unsupportedInput(op, 0, "its rank is not known");
  if (Aggregates::isAggregate(x.getType())) {
    if (repeats(words))
      return unsupportedAttribute(op, "cats_strings", "two are equal, and runtimes differ on which counts");
    auto keys = encodeStrings(words, {n}, op->getContext());
    HostTensor table(b.i64(), {n + 1});
    table.mutableData();
    table.setInteger(0, getInt(op, "default_int64", -1));
    for (int64_t i = 0; i < n; ++i)
      table.setInteger(i + 1, numbers[i]);
    if (!keys)
      return badStrings(op);
    a.set(op->getResult(0), {pickByHit(b, hits(b, a.part(x), *keys), table)});
    return success();
  }
  words.insert(words.begin(), getString(op, "default_string", "_Unused"));
  auto table = encodeStrings(words, {n + 1}, op->getContext());
  if (!table)
    return badStrings(op);
  if (llvm::DenseSet<int64_t>(numbers.begin(), numbers.end()).size() != numbers.size())
    return unsupportedAttribute(op, "cats_int64s", "two are equal, and runtimes differ on which counts");
  hit = b.compare("Equal", b.unsqueeze(x, {rankedType(x).getRank()}), b.ints(numbers));
  a.set(op->getResult(0), {pickByHit(b, hit, *table)});
  return success();
}

TESSERA_AGGREGATE_RULE(OneHotEncoder, "ml.OneHotEncoder") {
  auto keys = stringList(op, "cats_string");
  if (!keys)
    return failure(); // said there
  if (getInt(op, "zeros", 1) == 0)
    return unsupportedAttribute(op, "zeros", "an unknown category is an error then, which a kernel cannot raise");
  if (!getInts(op, "cats_int64s").empty())
    return unsupportedAttribute(op, "cats_int64s", "the input has strings");
  a.set(op->getResult(0), {b.cast(hits(b, a.part(op->getOperand(0)), *keys), b.attrs().getF32Type())});
  return success();
}

// Class names are looked up by the number of the class.
TESSERA_AGGREGATE_RULE(LinearClassifier, "ml.LinearClassifier") {
  SmallVector<StringRef> names = getStrings(op, "classlabels_strings");
  auto table = encodeStrings(names, {(int64_t)names.size()}, op->getContext());
  if (names.empty() || !table || op->getNumResults() != 2)
    return names.empty() ? unsupportedAttribute(op, "classlabels_strings", "names are expected") : badStrings(op);
  SmallVector<NamedAttribute> attrs;
  for (NamedAttribute attr : op->getAttrs())
    if (attr.getName() != "classlabels_strings" && attr.getName() != "classlabels_ints" &&
        attr.getName() != kUnsupportedAttr)
      attrs.push_back(attr);
  attrs.push_back(b.is("classlabels_ints", llvm::to_vector(llvm::seq<int64_t>(0, names.size()))));
  auto labels = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!labels)
    return unsupportedInput(op, 0, "its rank is not known");
  Operation *fresh = b.create("ml.LinearClassifier", {op->getOperand(0)}, {labels.clone(b.i64()), op->getResult(1).getType()}, attrs);
  a.set(op->getResult(0), {b.gather(b.weight(*table), fresh->getResult(0))});
  a.set(op->getResult(1), {fresh->getResult(1)});
  return success();
}

// The words become their numbers in the pool: TfIdfVectorizer on integers.
TESSERA_AGGREGATE_RULE(TfIdfVectorizer, "TfIdfVectorizer") {
  SmallVector<StringRef> pool = getStrings(op, "pool_strings");
  if (pool.empty())
    return unsupportedAttribute(op, "pool_strings", "words are expected for an input of strings");
  SmallVector<StringRef> words;
  SmallVector<int64_t> numbers;
  for (StringRef w : pool) {
    auto it = llvm::find(words, w);
    numbers.push_back(it - words.begin());
    if (it == words.end())
      words.push_back(w);
  }
  auto keys = encodeStrings(words, {(int64_t)words.size()}, op->getContext());
  if (!keys)
    return badStrings(op);
  HostTensor table(b.i64(), {(int64_t)words.size() + 1});
  table.mutableData();
  table.setInteger(0, -1);
  for (size_t i = 0; i < words.size(); ++i)
    table.setInteger(i + 1, i);
  Value x = pickByHit(b, hits(b, a.part(op->getOperand(0)), *keys), table);
  SmallVector<NamedAttribute> attrs;
  for (NamedAttribute attr : op->getAttrs())
    if (attr.getName() != "pool_strings" && attr.getName() != "pool_int64s" && attr.getName() != kUnsupportedAttr)
      attrs.push_back(attr);
  attrs.push_back(b.is("pool_int64s", numbers));
  a.set(op->getResult(0), {b.op("TfIdfVectorizer", {x}, op->getResult(0).getType(), attrs)});
  return success();
}

//===-- Case and stop words -------------------------------------------------===//

namespace {

struct CaseRange {
  int32_t first, last, step, delta;
};
#include "passes/Canonicalise/CaseTables.inc"

constexpr int64_t kBlock = 64;

/// Code points with their case changed. Two tables: the number of each block of
/// 64 code points, and what to add in each different block.
Value changeCase(ShapeBuilder &b, Value chars, ArrayRef<CaseRange> ranges) {
  int32_t limit = 0;
  for (const CaseRange &r : ranges)
    limit = std::max(limit, r.last + 1);
  int64_t blocks = llvm::divideCeil(limit, kBlock) + 1; // one of no changes at the end
  std::vector<int32_t> change(blocks * kBlock, 0);
  for (const CaseRange &r : ranges)
    for (int32_t c = r.first; c <= r.last; c += r.step)
      change[c] = r.delta;
  std::vector<int32_t> numbers, different;
  std::map<std::vector<int32_t>, int32_t> seen;
  for (int64_t k = 0; k < blocks; ++k) {
    std::vector<int32_t> one(change.begin() + k * kBlock, change.begin() + (k + 1) * kBlock);
    auto [it, fresh] = seen.try_emplace(one, seen.size());
    if (fresh)
      different.insert(different.end(), one.begin(), one.end());
    numbers.push_back(it->second);
  }
  auto table = [&](const std::vector<int32_t> &v) {
    HostTensor t(b.i32(), {(int64_t)v.size()});
    std::memcpy(t.mutableData(), v.data(), v.size() * 4);
    return b.weight(t);
  };
  auto c = [&](int64_t v) { return b.scalar(b.i32(), v); };
  Value low = b.binary("Min", chars, c(blocks * kBlock - 1));
  Value number = b.div(low, c(kBlock)), rest = b.sub(low, b.mul(number, c(kBlock)));
  Value at = b.add(b.mul(b.gather(table(numbers), number), c(kBlock)), rest);
  return b.add(chars, b.gather(table(different), at));
}

} // namespace

TESSERA_AGGREGATE_RULE(StringNormalizer, "StringNormalizer") {
  Value chars = a.part(op->getOperand(0));
  StringRef action = getString(op, "case_change_action", "NONE");
  SmallVector<StringRef> words = getStrings(op, "stopwords");
  int64_t rank = charRank(chars);
  if (rank < 1 || rank > 2 || (rank == 2 && rankedType(chars).getDimSize(0) != 1))
    return unsupportedInput(op, 0, "expected [C] or [1, C]");
  if (action != "NONE" && action != "LOWER" && action != "UPPER")
    return unsupportedAttribute(op, "case_change_action", "expected NONE, LOWER or UPPER");
  // Languages in which some letters change their case to others than everywhere.
  StringRef language = getString(op, "locale").take_while(llvm::isAlpha);
  bool changes = action != "NONE" || (!words.empty() && !getInt(op, "is_case_sensitive", 0));
  if (changes && llvm::is_contained({"tr", "az", "lt"}, language))
    return unsupportedAttribute(op, "locale", "letters change their case differently there than elsewhere");
  if (rank == 2)
    chars = b.squeeze(chars, {0});
  if (!words.empty()) {
    auto stops = encodeStrings(words, {(int64_t)words.size()}, op->getContext());
    if (!stops)
      return badStrings(op);
    bool sensitive = getInt(op, "is_case_sensitive", 0);
    Value stop = b.weight(*stops), word = sensitive ? chars : changeCase(b, chars, kLower);
    stop = sensitive ? stop : changeCase(b, stop, kLower);
    Value hit = sameStrings(b, b.unsqueeze(word, {1}), stop); // [C, S]
    Value stopped = b.reduce("ReduceMax", b.cast(hit, b.i32()), {1}, false);
    Value keep = b.compare("Equal", stopped, b.scalar(b.i32(), 0));
    SmallVector<int64_t> shape(rankedType(chars).getShape());
    shape[0] = ShapedType::kDynamic;
    chars = b.op("Compress", {chars, keep}, rankedType(chars).clone(shape), {b.i("axis", 0)});
    // Nothing left: one empty string.
    Value count = b.sizeOf(chars, 0);
    Value blank = b.expandTo(b.scalar(b.i32(), 0), b.concat({b.one(1), charWidth(b, chars)}), 2);
    chars = b.slice(b.concat({chars, blank}), b.one(0), b.binary("Max", count, b.one(1)));
  }
  if (action != "NONE")
    chars = changeCase(b, chars, action == "LOWER" ? ArrayRef<CaseRange>(kLower) : ArrayRef<CaseRange>(kUpper));
  a.set(op->getResult(0), {rank == 2 ? b.unsqueeze(chars, {0}) : chars});
  return success();
}

//===-- Splitting -----------------------------------------------------------===//

namespace {

/// Where the pieces of every row begin and how long they are.
struct Pieces {
  Value count;         ///< [N, 1]
  Value begin, length; ///< [N, T, 1]; length 0 from `count` on
};

/// int64 0 or 1.
Value bit(ShapeBuilder &b, Value condition) { return b.cast(condition, b.i64()); }

/// [N, T, 1]: the position of the mark with number t (from 1) in each row, 0 if
/// there is none. `marks` and `numbers` are [N, W].
Value markAt(ShapeBuilder &b, Value marks, Value numbers, Value t) {
  Value same = b.compare("Equal", b.unsqueeze(numbers, {1}), b.add(t, b.one(1))); // [N, T, W]
  Value here = b.compare("And", same, b.unsqueeze(marks, {1}));
  return b.reduce("ReduceSum", b.mul(bit(b, here), b.range(b.sizeOf(marks, 1))), {2}, true);
}

Value runningCount(ShapeBuilder &b, Value marks) {
  return b.op("CumSum", {bit(b, marks), b.ints({1}, true)}, rankedType(marks).clone(b.i64()));
}

/// 0 .. most - 1 as [T, 1].
Value upToMost(ShapeBuilder &b, Value count) {
  Value most = b.reduce("ReduceMax", b.reshapeTo(b.concat({b.flat(count), b.one(0)}), b.ints({-1}), 1), {0}, true);
  return b.unsqueeze(b.range(most), {1});
}

Value shifted(ShapeBuilder &b, Value marks) { // [N, W]: the one before
  Value column = b.expandTo(b.weight(HostTensor(b.i1(), {1, 1})), b.concat({b.sizeOf(marks, 0), b.one(1)}), 2);
  return b.slice(b.concat({column, marks}, 1), b.one(0), b.sizeOf(marks, 1), 1);
}

/// Runs of what is no white space; with `splits`, the last one takes all the rest.
Pieces byWhitespace(ShapeBuilder &b, Value chars, std::optional<int64_t> splits) {
  HostTensor spaces(b.i32(), {30});
  spaces.mutableData();
  int64_t n = 0;
  for (int32_t c : {0, 9, 10, 11, 12, 13, 28, 29, 30, 31, 32, 0x85, 0xa0, 0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004,
                    0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000})
    spaces.setInteger(n++, c);
  Value space = b.compare("Equal", b.unsqueeze(chars, {2}), b.weight(spaces)); // zero, the end, counts as one
  Value text = b.compare("Equal", b.reduce("ReduceMax", b.cast(space, b.i32()), {2}, false), b.scalar(b.i32(), 0));
  Value before = shifted(b, text);
  Value start = b.compare("And", text, b.unary("Not", before)), stop = b.compare("And", before, b.unary("Not", text));
  Value starts = runningCount(b, start), stops = runningCount(b, stop);
  Value count = b.reduce("ReduceSum", bit(b, start), {1}, true), ends = b.reduce("ReduceSum", bit(b, stop), {1}, true);
  Value full = b.unsqueeze(lengths(b, chars), {1}); // [N, 1, 1]
  Pieces p;
  p.count = splits ? b.binary("Min", count, b.one(*splits + 1)) : count;
  Value t = upToMost(b, p.count);
  p.begin = markAt(b, start, starts, t);
  // A run that reaches the last character has no stop.
  Value end = b.where(b.compare("Less", t, b.unsqueeze(ends, {1})), markAt(b, stop, stops, t), full);
  if (splits)
    end = b.where(b.compare("Less", t, b.one(*splits)), end, full);
  p.length = b.where(b.compare("Less", t, b.unsqueeze(p.count, {1})), b.sub(end, p.begin), b.one(0));
  return p;
}

/// Between the occurrences of `delimiter`, which does not overlap itself.
Pieces byDelimiter(ShapeBuilder &b, Value chars, const HostTensor &delimiter, std::optional<int64_t> splits) {
  int64_t size = delimiter.size();
  Value width = charWidth(b, chars), blank = b.expandTo(b.scalar(b.i32(), 0), b.concat({b.sizeOf(chars, 0), b.one(size)}), 2);
  Value longer = b.concat({chars, blank}, 1), mark;
  for (int64_t k = 0; k < size; ++k) {
    Value slice = b.slice(longer, b.one(k), b.add(width, b.one(k)), 1);
    Value same = b.compare("Equal", slice, b.scalar(b.i32(), delimiter.integer(k)));
    mark = mark ? b.compare("And", mark, same) : same;
  }
  Value numbers = runningCount(b, mark);
  if (splits)
    mark = b.compare("And", mark, b.compare("LessOrEqual", numbers, b.one(*splits)));
  Value marks = b.reduce("ReduceSum", bit(b, mark), {1}, true);
  Pieces p;
  p.count = b.add(marks, b.one(1));
  Value t = upToMost(b, p.count), wide = b.unsqueeze(marks, {1});
  Value before = b.add(markAt(b, mark, numbers, b.sub(t, b.one(1))), b.one(size));
  p.begin = b.where(b.compare("Less", t, b.one(1)), b.one(0), before);
  Value end = b.where(b.compare("Less", t, wide), markAt(b, mark, numbers, t), b.unsqueeze(lengths(b, chars), {1}));
  p.length = b.where(b.compare("LessOrEqual", t, wide), b.sub(end, p.begin), b.one(0));
  return p;
}

bool overlapsItself(const HostTensor &s) {
  for (int64_t shift = 1; shift < s.size(); ++shift) {
    bool same = true;
    for (int64_t k = 0; k + shift < s.size(); ++k)
      same &= s.integer(k) == s.integer(k + shift);
    if (same)
      return true;
  }
  return false;
}

} // namespace

TESSERA_AGGREGATE_RULE(StringSplit, "StringSplit") {
  Value chars = a.part(op->getOperand(0));
  int64_t rank = charRank(chars);
  StringRef delimiter = getString(op, "delimiter");
  std::optional<int64_t> splits;
  if (op->hasAttr("maxsplit"))
    splits = getInt(op, "maxsplit");
  if (splits && *splits < 0)
    splits.reset(); // as many as there are
  Value lead = b.slice(b.shapeOf(chars), b.one(0), b.one(rank)), width = charWidth(b, chars);
  chars = rows(b, chars);
  Pieces p;
  if (delimiter.empty()) {
    p = byWhitespace(b, chars, splits);
  } else {
    auto text = encodeStrings({delimiter}, {}, op->getContext());
    if (!text)
      return badStrings(op);
    if (overlapsItself(*text))
      return unsupportedAttribute(op, "delimiter", "its beginning is its end as well, so that it can overlap itself");
    p = byDelimiter(b, chars, *text, splits);
  }
  Value place = b.range(width); // [W]
  Value out = pick(b, chars, b.add(p.begin, place), b.compare("Less", place, p.length));
  Value pieces = b.sizeOf(p.length, 1);
  a.set(op->getResult(0), {b.reshapeTo(out, b.concat({lead, pieces, width}), rank + 2)});
  if (op->getNumResults() > 1)
    a.set(op->getResult(1), {b.reshapeTo(p.count, lead, rank)});
  return success();
}

} // namespace tessera::onnx
