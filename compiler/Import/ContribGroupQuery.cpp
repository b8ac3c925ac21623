// Attention with a cache of keys and values whose rows have lengths of their
// own, and the rotary embedding that goes with it.
#include "compiler/Import/Contrib.h"

#include <cmath>

namespace tessera::onnx_import {

namespace {

using T = TensorProto;

//===----------------------------------------------------------------------===//
// RotaryEmbedding
//===----------------------------------------------------------------------===//

/// x [B, N, S, H], positions [B, S], caches [positions, rotated / 2].
Val rotate(Recipe &r, const Val &x, int cos, int sin, const Val &positions,
           bool interleaved, int64_t rotated) {
  return r.op("RotaryEmbedding", {x, r.need(cos), r.need(sin), positions},
              {I("interleaved", interleaved), I("num_heads", 0),
               I("rotary_embedding_dim", rotated)});
}

// input [B, S, D] or [B, N, S, H], position_ids [1] (the first) or [B, S],
// caches
void rotaryEmbedding(Recipe &r) {
  r.onlyValue("is_packed_batching", 0);
  if (float scale = r.number("scale", 1); scale != 1)
    throw Unsupported{"attribute 'scale' of " + std::to_string(scale)};
  int64_t heads = r.integer("num_heads", 0),
          rotated = r.integer("rotary_embedding_dim", 0);
  int n = r.rank(0);
  Val x = r.in(0), positions = r.need(1);
  if (n == 3 && heads > 0) {
    x = splitHeads(r, x, heads);
  } else if (n == 3) { // heads are as wide as the caches
    if (rotated)
      throw Unsupported{"attribute 'rotary_embedding_dim' without 'num_heads'"};
    x = r.transpose(r.reshape(x, {0, 0, -1, 2 * r.knownSize(2, 1)}),
                    {0, 2, 1, 3});
  } else if (n != 4) {
    throw Unsupported{"rank " + std::to_string(n) + " of input 'input'"};
  }
  if (r.rank(1) == 1) {
    Val row = r.unsqueeze(r.add(r.count(r.dim(x, 2)), positions), {0});
    positions = r.op("Expand", {row, r.concat({r.dim(x, 0), r.ints({1})}, 0)});
  }
  Val y = rotate(r, x, 2, 3, positions, r.integer("interleaved", 0), rotated);
  r.out(0, n == 3 ? joinHeads(r, y) : y);
}

//===----------------------------------------------------------------------===//
// GroupQueryAttention
//===----------------------------------------------------------------------===//

// Row b of the batch has seen seqlens_k[b] + 1 - S tokens; the new ones follow
// there, whatever length the cache has.
class GroupQuery {
public:
  explicit GroupQuery(Recipe &r)
      : r(r), heads(r.positive("num_heads")),
        kvHeads(r.positive("kv_num_heads")) {}

  void write() {
    refuse();
    readHeads();
    normalise();
    readLengths();
    if (r.integer("do_rotary", 0))
      rotateHeads();
    fillCache();
    Val seen = visible();
    bool plain =
        !r.has(10) && !r.has(11) && r.integer("smooth_softmax", 0) != 1;
    Val y = plain ? attend(seen) : attendByParts(seen);
    r.out(0, joinHeads(r, y));
    r.out(1, keys);
    r.out(2, cachedValues);
  }

private:
  void refuse() {
    static constexpr std::pair<int, const char *> inputs[] = {
        {12, "k_scale"}, {13, "v_scale"}, {16, "query_seqlens"}};
    for (auto [i, name] : inputs)
      r.refuseInput(i, name);
    if (heads % kvHeads)
      throw Unsupported{"attribute 'num_heads' of " + std::to_string(heads) +
                        " with 'kv_num_heads' of " + std::to_string(kvHeads)};
    r.refuseOutput(3, "output_qk");
    r.onlyValue("qk_output", 0);
    r.onlyValue("sliding_window_cache", 0);
    if (r.has(3) != r.has(4))
      throw Unsupported{"only one of past_key and past_value"};
    for (const char *name : {"k_quant_type", "v_quant_type"})
      if (std::string kind = r.word(name, "NONE"); kind != "NONE")
        throw Unsupported{"attribute '" + std::string(name) + "' of '" + kind +
                          "'"};
    if (int64_t causal = r.integer("causal", 1);
        causal != 1 &&
        (causal != 0 || r.integer("local_window_size", -1) != -1))
      throw Unsupported{"attribute 'causal' of " + std::to_string(causal)};
  }

  void readHeads() {
    if (r.has(1)) {
      q = splitHeads(r, r.in(0), heads);
      k = splitHeads(r, r.in(1), kvHeads);
      v = splitHeads(r, r.need(2), kvHeads);
      return;
    }
    Val all = splitHeads(r, r.in(0), heads + 2 * kvHeads);
    q = r.slice(all, 1, 0, heads);
    k = r.slice(all, 1, heads, heads + kvHeads);
    v = r.slice(all, 1, heads + kvHeads, heads + 2 * kvHeads);
  }

  void normalise() {
    if (r.has(14) != r.has(15))
      throw Unsupported{"only one of q_norm_weight and k_norm_weight"};
    if (!r.has(14))
      return;
    float epsilon = r.number("qk_norm_epsilon", 1e-6f);
    auto of = [&](const Val &x, int weight, const char *own) {
      return r.op("RMSNormalization", {x, r.in(weight)},
                  {I("axis", -1), F("epsilon", r.number(own, epsilon)),
                   I("stash_type", 1)});
    };
    q = of(q, 14, "q_norm_epsilon");
    k = of(k, 15, "k_norm_epsilon");
  }

  void readLengths() {
    length = r.dim("i0", 1);
    lengths =
        r.reshape(r.add(r.cast(r.need(5), T::INT64), r.intScalar(1)), {-1});
    // A prompt may be shorter than its row: it begins at 0 all the same.
    before =
        r.unsqueeze(r.op("Max", {r.sub(lengths, length), r.intScalar(0)}), {1});
    positions = r.add(before, r.unsqueeze(r.count(length), {0})); // [B, S]
  }

  void rotateHeads() {
    // The caches say how many channels turn.
    int64_t rotated = 2 * r.knownSize(7, 1);
    std::optional<int64_t> width = r.size(0, 2);
    if (!width)
      throw Unsupported{
          "an unknown dimension 2 of input 'query' with do_rotary"};
    int64_t size = *width / (r.has(1) ? heads : heads + 2 * kvHeads);
    rotated = rotated == size ? 0 : rotated;
    bool interleaved = r.integer("rotary_interleaved", 0);
    Val at = r.has(9) ? r.in(9) : positions;
    q = rotate(r, q, 7, 8, at, interleaved, rotated);
    k = rotate(r, k, 7, 8, at, interleaved, rotated);
  }

  // T slots: slot t holds past t, or new token t - before.
  void fillCache() {
    Val past = r.has(3) ? r.dim(r.in(3), 2) : r.ints({0});
    Val allKeys = r.has(3) ? r.concat({r.in(3), k}, 2) : k;
    Val allValues = r.has(4) ? r.concat({r.in(4), v}, 2) : v;
    total = r.reshape(r.cast(r.need(6), T::INT64), {-1});
    slots = r.op("Max", {past, total});
    slotRow = r.unsqueeze(r.count(slots), {0});
    Val last = r.squeeze(r.sub(r.add(past, length), r.intScalar(1)), {0});
    Val moved = r.add(r.sub(slotRow, before), past);
    auto clip = [&](const Val &x) {
      return r.op("Clip", {x, r.intScalar(0), last});
    };
    Val at =
        r.where(r.op("Less", {slotRow, before}), clip(slotRow), clip(moved));
    at = r.unsqueeze(at, {1, 3});
    auto cache = [&](const Val &x, const Val &all) {
      Val size = r.concat({r.dims(x, 0, 2), slots, r.dim(x, 3)}, 0);
      return r.op("GatherElements", {all, r.op("Expand", {at, size})},
                  {I("axis", 2)});
    };
    keys = cache(k, allKeys);
    cachedValues = cache(v, allValues);
  }

  // The token at position p sees slots up to p, at most a window of them. [B,
  // S, T]
  Val visible() {
    Val slot = r.unsqueeze(slotRow, {0});
    if (!r.integer("causal", 1))
      return r.op("Less", {slot, r.unsqueeze(lengths, {1, 2})});
    Val position = r.unsqueeze(positions, {2});
    Val seen = r.op("LessOrEqual", {slot, position});
    int64_t window = r.integer("local_window_size", -1);
    if (window <= 0)
      return seen;
    return r.op(
        "And",
        {seen, r.op("Greater", {slot, r.sub(position, r.intScalar(window))})});
  }

  Val attend(const Val &seen) {
    std::vector<AttributeProto> attributes = {
        I("is_causal", 0), F("softcap", r.number("softcap", 0)),
        I("qk_matmul_output_mode", 0)};
    if (float scale = r.number("scale", 0); scale != 0)
      attributes.push_back(F("scale", scale));
    return r.op("Attention", {q, keys, cachedValues, r.unsqueeze(seen, {1})},
                attributes);
  }

  // Scores, cap, bias, mask, softmax (with one more logit that takes its
  // share), in this order. Queries in groups that share a key: [B, kv, N / kv,
  // S, H].
  Val attendByParts(const Val &seen) {
    Val size = r.dim(q, 3), batch = r.dim(q, 0);
    Val groups = r.ints({kvHeads, heads / kvHeads});
    Val grouped = r.reshapeTo(q, r.concat({batch, groups, length, size}, 0));
    float scale = r.number("scale", 0), cap = r.number("softcap", 0);
    Val factor =
        scale != 0
            ? r.scalarLike(scale, q)
            : r.op("Reciprocal",
                   {r.op("Sqrt", {r.castLike(r.squeeze(size, {0}), q)})});
    Val s = r.matmul(r.mul(grouped, factor),
                     r.transpose(r.unsqueeze(keys, {2}), {0, 1, 2, 4, 3}));
    s = r.reshapeTo(s, r.concat({batch, r.ints({heads}), length, slots}, 0));
    if (cap != 0) {
      Val c = r.scalarLike(cap, s);
      s = r.mul(r.op("Tanh", {r.div(s, c)}), c);
    }
    if (r.has(10)) { // [.., total]; slots behind are not seen
      Val more = r.sub(slots, total), none = r.ints({0, 0, 0, 0, 0, 0, 0});
      s = r.add(s, r.op("Pad", {r.in(10), r.concat({none, more}, 0)},
                        {S("mode", "constant")}));
    }
    s = r.where(r.unsqueeze(seen, {1}), s, r.scalarLike(-INFINITY, s));
    Val p;
    if (r.has(11) || r.integer("smooth_softmax", 0) == 1) {
      Val sink = r.has(11) ? r.reshape(r.in(11), {1, heads, 1, 1})
                           : r.scalarLike(0, s);
      sink = r.op("Expand",
                  {r.castLike(sink, s),
                   r.concat({batch, r.ints({heads}), length, r.ints({1})}, 0)});
      p = r.op("Softmax", {r.concat({s, sink}, 3)}, {I("axis", -1)});
      p = r.slice(p, 3, r.ints({0}), slots);
    } else {
      p = r.op("Softmax", {s}, {I("axis", -1)});
    }
    p = r.reshapeTo(p, r.concat({batch, groups, length, slots}, 0));
    Val y = r.matmul(p, r.unsqueeze(cachedValues, {2}));
    return r.reshapeTo(
        y,
        r.concat({batch, r.ints({heads}), length, r.dim(cachedValues, 3)}, 0));
  }

  Recipe &r;
  int64_t heads, kvHeads;
  Val q, k, v;               // [B, N, S, H], new tokens
  Val keys, cachedValues;    // [B, kv, T, H], all
  Val length, lengths;       // S as a list; tokens of each row after this step
  Val before, positions;     // [B, 1], [B, S]
  Val total, slots, slotRow; // lists; 0 .. T - 1 as a row
};

void groupQueryAttention(Recipe &r) { GroupQuery(r).write(); }

} // namespace

llvm::ArrayRef<ContribOperator> cachedAttentionOperators() {
  static const std::vector<ContribOperator> list = {
      {"RotaryEmbedding",
       rotaryEmbedding,
       4,
       1,
       {"interleaved", "is_packed_batching", "num_heads",
        "rotary_embedding_dim", "scale"}},
      {"GroupQueryAttention",
       groupQueryAttention,
       17,
       4,
       {"causal", "do_rotary", "k_norm_epsilon", "k_quant_type", "kv_num_heads",
        "local_window_size", "num_heads", "q_norm_epsilon", "qk_norm_epsilon",
        "qk_output", "rotary_interleaved", "scale", "sliding_window_cache",
        "smooth_softmax", "softcap", "v_quant_type"}},
  };
  return list;
}

} // namespace tessera::onnx_import
