// Attention of onnxruntime's transformer fusions. Masks are added to the
// scores, with a finite value (`mask_filter_value`) where they hide: a row that
// is hidden throughout still has the softmax of its scores. What
// `unidirectional` hides is hidden for good.
#include "compiler/Import/Contrib.h"

#include <cmath>
#include <limits>

namespace tessera::onnx_import {

namespace {

using T = TensorProto;

/// Query, key and value, [B, N, S, H].
struct Heads {
  Val q, k, v;
};

/// What is added to the scores, [B or 1, N or 1, S or 1, T]; empty: nothing.
struct Scores {
  Val bias;
  float scale = 0; // 0: 1 / sqrt(H)
};

Val filter(Recipe &r, const Val &hidden) {
  Val value = r.floatScalar(r.number("mask_filter_value", -10000.0f));
  return r.where(hidden, value, r.floatScalar(0));
}

// Input `i` says where keys are padding. One dimension: [B] are the ends of the
// rows, [2 * B] ends and then beginnings. More: 0 hides.
Val padding(Recipe &r, int i, const Val &total) {
  int n = r.rank(i);
  if (n == 1) {
    std::optional<int64_t> size = r.size(i, 0), batch = r.size(0, 0);
    bool ends = r.sameSize(i, 0, 0, 0),
         both = size && batch && *size == 2 * *batch;
    if (!ends && !both)
      throw Unsupported{"a mask of one dimension that is neither [batch] nor "
                        "[2 * batch] for certain"};
    Val at = r.cast(r.unsqueeze(r.count(total), {0}), T::INT32);
    Val b = r.dim("i0", 0), mask = r.in(i);
    Val hidden = r.op(
        "GreaterOrEqual",
        {at, r.unsqueeze(ends ? mask : r.slice(mask, 0, r.ints({0}), b), {1})});
    if (!ends)
      hidden = r.op(
          "Or",
          {hidden,
           r.op("Less",
                {at, r.unsqueeze(r.slice(mask, 0, b, r.dim(mask, 0)), {1})})});
    return filter(r, r.unsqueeze(hidden, {1, 2}));
  }
  if (n != 2 && n != 3)
    throw Unsupported{"rank " + std::to_string(n) + " of the mask"};
  Val hidden =
      r.op("LessOrEqual", {r.in(i), r.castLike(r.intScalar(0), r.in(i))});
  return filter(r, n == 2 ? r.unsqueeze(hidden, {1, 2})
                          : r.unsqueeze(hidden, {1}));
}

/// Query s sees keys up to past + s; `past` a list of one, or empty.
Val causal(Recipe &r, const Val &queries, const Val &total, const Val &past) {
  Val at = r.unsqueeze(r.count(total), {0});
  Val last = r.unsqueeze(r.addIf(r.count(queries), past), {1});
  return r.where(r.op("Greater", {at, last}),
                 r.floatScalar(std::numeric_limits<float>::lowest()),
                 r.floatScalar(0));
}

Val sum(Recipe &r, const Val &x, const Val &y) {
  return x.empty() ? y : y.empty() ? x : r.add(x, y);
}

Val attend(Recipe &r, const Heads &h, const Scores &s) {
  std::vector<AttributeProto> attributes = {I("is_causal", 0), F("softcap", 0),
                                            I("qk_matmul_output_mode", 0)};
  if (s.scale != 0)
    attributes.push_back(F("scale", s.scale));
  Val bias = s.bias.empty() ? s.bias : r.castLike(s.bias, h.q);
  return r.op("Attention", {h.q, h.k, h.v, bias}, attributes);
}

/// Masks and biases that inputs give; k with all its past.
Scores readScores(Recipe &r, const Heads &h, int mask, int bias,
                  const Val &past) {
  Scores s;
  s.scale = r.number("scale", 0);
  Val total = r.dim(h.k, 2);
  if (r.has(mask))
    s.bias = padding(r, mask, total);
  if (r.integer("unidirectional", 0))
    s.bias = sum(r, s.bias, causal(r, r.dim(h.q, 2), total, past));
  if (r.has(bias))
    s.bias = sum(r, s.bias.empty() ? s.bias : r.castLike(s.bias, r.in(bias)),
                 r.in(bias));
  return s;
}

//===----------------------------------------------------------------------===//
// Attention, QAttention
//===----------------------------------------------------------------------===//

// `x` [B, S, 3 * D] becomes query, key, value; past and present are [2, B, N,
// P, H].
void selfAttention(Recipe &r, const Val &x, int mask, int past, int bias) {
  int64_t heads = r.positive("num_heads");
  std::vector<int64_t> sizes = r.integers("qkv_hidden_sizes");
  r.onlyValue("do_rotary", 0);
  r.onlyValue("past_present_share_buffer", 0);
  auto parts =
      sizes.empty()
          ? r.ops("Split", {x}, 3, {I("axis", -1), I("num_outputs", 3)})
          : r.ops("Split", {x, r.ints(sizes)}, 3, {I("axis", -1)});
  Heads h = {splitHeads(r, parts[0], heads), splitHeads(r, parts[1], heads),
             splitHeads(r, parts[2], heads)};
  Val before;
  if (r.has(past)) {
    auto half = [&](int64_t i) {
      return r.op("Gather", {r.in(past), r.intScalar(i)}, {I("axis", 0)});
    };
    before = r.dim(r.in(past), 3);
    h.k = r.concat({half(0), h.k}, 2);
    h.v = r.concat({half(1), h.v}, 2);
  }
  r.out(0, joinHeads(r, attend(r, h, readScores(r, h, mask, bias, before))));
  if (r.wants(1))
    r.out(1, r.concat({r.unsqueeze(h.k, {0}), r.unsqueeze(h.v, {0})}, 0));
}

void attention(Recipe &r) {
  r.refuseInput(6, "past_sequence_length");
  selfAttention(r, r.addIf(r.matmul(r.in(0), r.need(1)), r.in(2)), 3, 4, 5);
}

// input, weights, bias, their scales, mask, their zero points, past.
void qAttention(Recipe &r) {
  Val x = r.castLike(matmulInteger(r, r.in(0), r.need(1), r.in(6), r.in(7)),
                     r.need(3));
  x = r.add(r.mul(x, r.mul(r.in(3), r.need(4))), r.need(2));
  selfAttention(r, x, 5, 8, 99);
}

//===----------------------------------------------------------------------===//
// Query, key and value apart
//===----------------------------------------------------------------------===//

/// The part of a bias [D + D + Dv] that begins behind `from` values; `like` has
/// D (or Dv) channels last. Returns the part and where the next begins.
std::pair<Val, Val> biasPart(Recipe &r, int bias, const Val &from,
                             const Val &like) {
  Val to = r.add(from, r.dim(like, 2));
  return {r.slice(r.in(bias), 0, from, to), to};
}

/// [B, S, N, parts, H] as [B, S, N * H] for each part.
std::vector<Val> unpack(Recipe &r, const Val &x, int parts) {
  std::vector<Val> out;
  for (int i = 0; i < parts; ++i)
    out.push_back(r.reshape(r.op("Gather", {x, r.intScalar(i)}, {I("axis", 3)}),
                            {0, 0, -1}));
  return out;
}

/// Key and value that come from a cache have their heads in place, and no bias.
Heads readHeads(Recipe &r, int64_t heads, int bias) {
  Val q, k, v;
  bool cached = false;
  if (!r.has(1)) {
    if (r.rank(0) != 5)
      throw Unsupported{"the absence of input 'key' with a query of rank " +
                        std::to_string(r.rank(0))};
    auto parts = unpack(r, r.in(0), 3);
    q = parts[0], k = parts[1], v = parts[2];
  } else if (!r.has(2)) {
    if (r.rank(1) != 5)
      throw Unsupported{"the absence of input 'value' with a key of rank " +
                        std::to_string(r.rank(1))};
    auto parts = unpack(r, r.in(1), 2);
    q = r.in(0), k = parts[0], v = parts[1];
  } else {
    q = r.in(0), k = r.in(1), v = r.in(2);
    cached = r.rank(1) == 4;
    if (r.rank(0) != 3 || r.rank(2) != r.rank(1) || (r.rank(1) != 3 && !cached))
      throw Unsupported{
          "query, key and value of ranks " + std::to_string(r.rank(0)) + ", " +
          std::to_string(r.rank(1)) + " and " + std::to_string(r.rank(2))};
  }
  if (r.has(bias)) {
    auto [forQ, behindQ] = biasPart(r, bias, r.ints({0}), q);
    q = r.add(q, forQ);
    if (!cached) {
      auto [forK, behindK] = biasPart(r, bias, behindQ, k);
      k = r.add(k, forK);
      v = r.add(v, biasPart(r, bias, behindK, v).first);
    }
  }
  q = splitHeads(r, q, heads);
  return cached ? Heads{q, k, v}
                : Heads{q, splitHeads(r, k, heads), splitHeads(r, v, heads)};
}

void apart(Recipe &r, int mask, int attentionBias, int pastKey, int bias) {
  r.refuseOutput(3, "qk"); // onnxruntime and the schema differ on what it is
  Heads h = readHeads(r, r.positive("num_heads"), bias);
  Val before;
  if (r.has(pastKey) != r.has(pastKey + 1))
    throw Unsupported{"only one of past key and past value"};
  if (r.has(pastKey)) {
    before = r.dim(r.in(pastKey), 2);
    h.k = r.concat({r.in(pastKey), h.k}, 2);
    h.v = r.concat({r.in(pastKey + 1), h.v}, 2);
  }
  Scores s = readScores(r, h, mask, attentionBias, before);
  r.out(1, h.k);
  r.out(2, h.v);
  r.out(0, joinHeads(r, attend(r, h, s)));
}

// query, key, value, bias, key_padding_mask, attention_bias, past_key,
// past_value
void multiHeadAttention(Recipe &r) {
  r.refuseInput(8, "past_sequence_length");
  r.refuseInput(9, "cache_indirection");
  apart(r, 4, 5, 6, 3);
}

// query, key, value, mask_index, attention_bias, past_key, past_value, .., bias
void decoderMaskedMultiHeadAttention(Recipe &r) {
  r.refuseInput(8, "beam_width");
  r.refuseInput(9, "cache_indirection");
  if (int64_t shared = r.integer("past_present_share_buffer", 0); shared == 0) {
    r.refuseInput(7, "past_sequence_length");
    return apart(r, 3, 4, 5, 10);
  } else if (shared != 1 || !r.has(5) || !r.has(6)) {
    throw Unsupported{"attribute 'past_present_share_buffer' of " +
                      std::to_string(shared)};
  }
  // The past is a buffer of more slots than are in use; the new token goes
  // behind those, and what follows is not seen.
  r.refuseOutput(3, "qk");
  Heads h = readHeads(r, r.positive("num_heads"), 10);
  Val past = r.reshape(r.cast(r.need(7), T::INT64), {1}),
      total = r.add(past, r.ints({1}));
  auto buffer = [&](int i, const Val &fresh) {
    Val here = r.op("Equal", {r.count(r.dim(r.in(i), 2)), past});
    return r.where(r.unsqueeze(here, {0, 1, 3}), fresh, r.in(i));
  };
  Val keys = buffer(5, h.k), values = buffer(6, h.v);
  h.k = r.slice(keys, 2, r.ints({0}), total);
  h.v = r.slice(values, 2, r.ints({0}), total);
  r.out(1, keys);
  r.out(2, values);
  r.out(0, joinHeads(r, attend(r, h, readScores(r, h, 3, 4, past))));
}

//===----------------------------------------------------------------------===//
// Without padding: the tokens of all sequences in one list
//===----------------------------------------------------------------------===//

/// Whether two tokens are of one sequence, [tokens, tokens].
Val sameSequence(Recipe &r, const Val &tokens, int cumulated) {
  Val ends = r.cast(
      r.slice(r.need(cumulated), 0, 1, std::numeric_limits<int64_t>::max()),
      T::INT64);
  Val behind = r.op("LessOrEqual", {r.unsqueeze(ends, {1}),
                                    r.unsqueeze(r.count(tokens), {0})});
  Val sequence = r.reduce("ReduceSum", r.cast(behind, T::INT64), {0}, false);
  return r.op("Equal",
              {r.unsqueeze(sequence, {1}), r.unsqueeze(sequence, {0})});
}
void attendPacked(Recipe &r, const std::vector<Val> &qkv, int cumulated) {
  int64_t heads = r.positive("num_heads");
  auto split = [&](const Val &x) {
    return splitHeads(r, r.unsqueeze(x, {0}), heads);
  };
  Heads h = {split(qkv[0]), split(qkv[1]), split(qkv[2])};
  Scores s;
  s.scale = r.number("scale", 0);
  s.bias = r.where(sameSequence(r, r.dim("i0", 0), cumulated), r.floatScalar(0),
                   r.floatScalar(-INFINITY));
  r.out(0, r.squeeze(joinHeads(r, attend(r, h, s)), {0}));
}
// input, weights, bias, token_offset, cumulative_sequence_length,
// attention_bias
void packedAttention(Recipe &r) {
  r.refuseInput(5, "attention_bias");
  Val x = r.add(r.matmul(r.in(0), r.need(1)), r.need(2));
  std::vector<int64_t> sizes = r.integers("qkv_hidden_sizes");
  attendPacked(
      r,
      sizes.empty()
          ? r.ops("Split", {x}, 3, {I("axis", -1), I("num_outputs", 3)})
          : r.ops("Split", {x, r.ints(sizes)}, 3, {I("axis", -1)}),
      4);
}
// query, key, value, bias, token_offset, cumulative_sequence_length,
// attention_bias
void packedMultiHeadAttention(Recipe &r) {
  r.refuseInput(6, "attention_bias");
  r.refuseInput(3, "bias");
  if (!r.has(1) || !r.has(2))
    throw Unsupported{"packed query, key and value"};
  attendPacked(r, {r.in(0), r.in(1), r.in(2)}, 5);
}

// [B, S, D], tokens of each row; results: the tokens [total, D], where they
// come from and then where the padding is [B, S], cumulated lengths, the
// longest.
void removePadding(Recipe &r) {
  Val x = r.in(0), counts = r.cast(r.need(1), T::INT64),
      shape = r.dims(x, 0, 2);
  Val at = r.unsqueeze(r.count(r.dim(x, 1)), {0});
  Val token = r.reshape(r.op("Less", {at, r.unsqueeze(counts, {1})}), {-1});
  auto places = [&](const Val &which) {
    return r.squeeze(r.op("NonZero", {which}), {0});
  };
  Val kept = places(token);
  Val rows = r.reshapeTo(x, r.concat({r.ints({-1}), r.dim(x, 2)}, 0));
  r.out(0, r.op("Gather", {rows, kept}, {I("axis", 0)}));
  if (r.wants(1))
    r.out(1,
          r.cast(r.reshapeTo(r.concat({kept, places(r.op("Not", {token}))}, 0),
                             shape),
                 T::INT32));
  if (r.wants(2)) {
    Val sums = r.op("CumSum", {counts, r.intScalar(0)},
                    {I("exclusive", 0), I("reverse", 0)});
    r.out(2, r.cast(r.concat({r.ints({0}), sums}, 0), T::INT32));
  }
  if (r.wants(3))
    r.out(3, r.cast(r.reduce("ReduceMax", counts, {0}, true), T::INT32));
}
void restorePadding(Recipe &r) {
  Val x = r.in(0), offsets = r.cast(r.need(1), T::INT64), tokens = r.dim(x, 0),
      width = r.dim(x, 1);
  Val at = r.unsqueeze(
      r.slice(r.reshape(offsets, {-1}), 0, r.ints({0}), tokens), {1});
  Val rows = r.op("Size", {offsets});
  Val none = r.op("Expand", {r.scalarLike(0, x),
                             r.concat({r.unsqueeze(rows, {0}), width}, 0)});
  Val y = r.op("ScatterND", {none, at, x}, {S("reduction", "none")});
  r.out(0, r.reshapeTo(y, r.concat({r.op("Shape", {offsets}), width}, 0)));
}

//===----------------------------------------------------------------------===//
// Biases by position
//===----------------------------------------------------------------------===//

// T5: near distances have a bucket each, far ones share logarithmic buckets.
// The table of [buckets, heads] lies in memory column by column.
void relativePositionBias(Recipe &r) {
  int64_t buckets = r.knownSize(0, 0), heads = r.knownSize(0, 1),
          longest = r.integer("max_distance", 0);
  bool both = r.integer("is_bidirectional", 0);
  Val table = r.reshape(r.in(0), {heads, buckets});
  auto places = [&](int i) { return r.count(r.reshape(r.need(i), {1})); };
  Val distance = r.sub(r.unsqueeze(places(1), {1}),
                       r.unsqueeze(places(2), {0})); // query - key
  Val first = r.intScalar(0);
  int64_t half = both ? buckets / 2 : buckets, exact = half / 2;
  if (both)
    first = r.mul(r.cast(r.op("Less", {distance, r.intScalar(0)}), T::INT64),
                  r.intScalar(half));
  distance =
      both ? r.op("Abs", {distance}) : r.op("Max", {distance, r.intScalar(0)});
  Val near = r.op("Less", {distance, r.intScalar(exact)});
  Val ratio = r.div(r.cast(r.op("Max", {distance, r.intScalar(1)}), T::FLOAT),
                    r.floatScalar((float)exact));
  Val log = r.div(r.op("Log", {ratio}),
                  r.floatScalar(std::log((float)longest / (float)exact)));
  Val far =
      r.add(r.cast(r.mul(log, r.floatScalar((float)(half - exact))), T::INT64),
            r.intScalar(exact));
  far = r.op("Min", {far, r.intScalar(half - 1)});
  Val bucket = r.add(first, r.where(near, distance, far));
  r.out(0, r.unsqueeze(r.op("Gather", {table, bucket}, {I("axis", 1)}), {0}));
}

// query, query_bias, rel_pos, weight [H, D], bias [D], eco_a
void gatedRelativePositionBias(Recipe &r) {
  r.refuseInput(6, "token_offset");
  int64_t heads = r.positive("num_heads"), gates = r.knownSize(3, 1);
  Val q = splitHeads(r, r.add(r.in(0), r.need(1)), heads);
  Val x = r.add(r.matmul(q, r.need(3)), r.need(4)); // [B, N, S, D]
  x = r.op("Sigmoid",
           {r.reduce("ReduceSum", r.reshape(x, {0, 0, 0, 2, gates / 2}), {-1},
                     false)});
  Val u = r.slice(x, 3, 0, 1), g = r.slice(x, 3, 1, 2);
  Val one = r.scalarLike(1, u), two = r.scalarLike(2, u);
  r.out(0, r.mul(r.add(r.mul(u, r.sub(r.mul(g, r.need(5)), one)), two),
                 r.need(2)));
}

} // namespace

llvm::ArrayRef<ContribOperator> attentionOperators() {
  static const std::vector<ContribOperator> list = {
      {"Attention",
       attention,
       7,
       2,
       {"do_rotary", "mask_filter_value", "num_heads",
        "past_present_share_buffer", "qkv_hidden_sizes", "scale",
        "unidirectional"}},
      {"QAttention",
       qAttention,
       9,
       2,
       {"do_rotary", "mask_filter_value", "num_heads",
        "past_present_share_buffer", "scale", "unidirectional"}},
      {"MultiHeadAttention",
       multiHeadAttention,
       10,
       4,
       {"mask_filter_value", "num_heads", "scale", "unidirectional"}},
      {"DecoderMaskedMultiHeadAttention",
       decoderMaskedMultiHeadAttention,
       11,
       4,
       {"mask_filter_value", "num_heads", "output_qk",
        "past_present_share_buffer", "scale"}},
      {"PackedAttention",
       packedAttention,
       6,
       1,
       {"mask_filter_value", "num_heads", "qkv_hidden_sizes", "scale"}},
      {"PackedMultiHeadAttention",
       packedMultiHeadAttention,
       7,
       1,
       {"mask_filter_value", "num_heads", "scale"}},
      {"RemovePadding", removePadding, 2, 4, {}},
      {"RestorePadding", restorePadding, 2, 1, {}},
      {"RelativePositionBias",
       relativePositionBias,
       3,
       1,
       {"is_bidirectional", "max_distance"}},
      {"GatedRelativePositionBias",
       gatedRelativePositionBias,
       7,
       1,
       {"num_heads"}},
  };
  return list;
}

} // namespace tessera::onnx_import
