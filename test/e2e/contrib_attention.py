"""Cases of contrib.py: attention and what goes with it."""
import numpy as np

from contrib_cases import R, case, given, normal, sigmoid, single, softmax

# Attention.
q, k, v = normal(2, 5, 32), normal(2, 7, 32), normal(2, 7, 32)
case("multi_head_attention", "MultiHeadAttention", [given(q), given(k), given(v)], num_heads=4)
case("multi_head_attention_scale", "MultiHeadAttention", [given(q), given(k), given(v)], num_heads=2, scale=0.3)
case("multi_head_attention_bias", "MultiHeadAttention", [given(q), given(k), given(v), None, None, given(normal(1, 4, 5, 7))], num_heads=4)
case("multi_head_attention_qkv_bias", "MultiHeadAttention", [given(q), given(k), given(v), normal(96)], num_heads=4)


def rotary(length, half):
    angle = np.outer(np.arange(length), 1 / 100 ** (np.arange(half) / half))
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def group_query(name, batch, new, past, heads=4, kv=2, d=16, **attributes):
    """`past` tokens of each row are in the cache already; `new` follow."""
    total = past + new
    cos, sin = rotary(64, d // 2)
    inputs = [given(normal(batch, new, heads * d)), given(normal(batch, new, kv * d)), given(normal(batch, new, kv * d)), given(normal(batch, kv, past, d)), given(normal(batch, kv, past, d)),
              given(np.full(batch, total - 1, np.int32)), given(np.array(total, np.int32))]
    if attributes.get("do_rotary"):
        inputs += [cos, sin]
    case(name, "GroupQueryAttention", inputs, 3, num_heads=heads, kv_num_heads=kv, limit=1e-4, **attributes)


group_query("group_query_prompt", 2, 6, 0)
group_query("group_query_next", 2, 1, 9)
group_query("group_query_rotary_prompt", 1, 6, 0, do_rotary=1)
group_query("group_query_rotary_next", 2, 1, 9, do_rotary=1)
group_query("group_query_interleaved", 1, 5, 0, do_rotary=1, rotary_interleaved=1)
group_query("group_query_window", 1, 1, 12, local_window_size=4)
group_query("group_query_scale", 1, 4, 0, scale=0.4, softcap=5.0)

def heads_of(v, n):
    return v.reshape(*v.shape[:-1], n, -1).swapaxes(-2, -3)


def attended(q, k, v, n, scale=None, bias=0, past=None):
    """[.., S, N * H] each; past keys and values [.., N, P, H]."""
    q, k, v = (heads_of(a.astype(np.float64), n) for a in (q, k, v))
    if past:
        k, v = np.concatenate([past[0], k], -2), np.concatenate([past[1], v], -2)
    y = softmax(q @ k.swapaxes(-1, -2) * (scale or 1 / np.sqrt(q.shape[-1])) + bias) @ v
    y = y.swapaxes(-2, -3)
    return y.reshape(*y.shape[:-2], -1)


# MultiHeadAttention: packed forms, biases, masks, caches.
def ints(*values):
    return np.array(values, np.int32)


mask2 = (np.arange(7) < np.array([[4], [7]])).astype(np.int32)
packed = normal(2, 5, 4, 3, 8)
flat = [packed[:, :, :, i].reshape(2, 5, 32) for i in range(3)]
case("multi_head_attention_packed_qkv", "MultiHeadAttention", [given(packed)], num_heads=4, want=single(attended(*flat, 4)))
bias = normal(96)
case("multi_head_attention_packed_kv", "MultiHeadAttention", [given(q), given(np.ascontiguousarray(packed[:, :, :, 1:])), None, bias], num_heads=4, want=single(attended(q + bias[:32], flat[1] + bias[32:64], flat[2] + bias[64:], 4)))
case("multi_head_attention_values_of_other_width", "MultiHeadAttention", [given(q), given(k), given(normal(2, 7, 48)), normal(112)], num_heads=4)
case("multi_head_attention_mask", "MultiHeadAttention", [given(q), given(k), given(v), None, given(mask2)], num_heads=4)
case("multi_head_attention_mask_lengths", "MultiHeadAttention", [given(q), given(k), given(v), None, given(ints(4, 7))], num_heads=4, mask_filter_value=-2.0)
case("multi_head_attention_mask_3d", "MultiHeadAttention", [given(q), given(k), given(v), normal(96), given(R.integers(0, 2, (2, 5, 7)).astype(np.int32)), given(normal(1, 1, 5, 7))], num_heads=4)
case("multi_head_attention_causal", "MultiHeadAttention", [given(q), given(q), given(q)], num_heads=4, unidirectional=1)
case("multi_head_attention_causal_mask", "MultiHeadAttention", [given(q), given(q), given(q), None, given((np.arange(5) < np.array([[2], [5]])).astype(np.int32))], num_heads=4, unidirectional=1, mask_filter_value=-3.0)
past = [given(normal(2, 4, 3, 8)), given(normal(2, 4, 3, 8))]
case("multi_head_attention_past", "MultiHeadAttention", [given(q), given(q), given(q), normal(96), None, None, *past], 3, num_heads=4)
case("multi_head_attention_past_causal", "MultiHeadAttention", [given(q), given(q), given(q), None, None, given(normal(2, 4, 5, 8)), *past], 3, num_heads=4, unidirectional=1)
case("multi_head_attention_past_mask", "MultiHeadAttention", [given(q), given(q), given(q), None, given((np.arange(8) < np.array([[4], [8]])).astype(np.int32)), None, *past], 3, num_heads=4)
case("multi_head_attention_present", "MultiHeadAttention", [given(q), given(k), given(v), normal(96)], 3, num_heads=4)
case("multi_head_attention_cached_cross", "MultiHeadAttention", [given(q), given(normal(2, 4, 7, 8)), given(normal(2, 4, 7, 8)), normal(96)], num_heads=4)
case("multi_head_attention_qk", "MultiHeadAttention", [given(q), given(k), given(v)], [1, None, None, 1], num_heads=4, refused="output 'qk'")
case("multi_head_attention_shared_buffer", "MultiHeadAttention", [given(q), given(q), given(q), None, None, None, *past, given(ints(3))], num_heads=4, refused="past_sequence_length")
# DecoderMaskedMultiHeadAttention without shared buffers is the same with its inputs elsewhere.
one, caches, bias = normal(2, 1, 32), (normal(2, 4, 3, 8), normal(2, 4, 3, 8)), normal(96)
shown, extra = (np.arange(4) < np.array([[2], [4]])).astype(np.int32), normal(1, 4, 1, 4)
case("decoder_masked", "DecoderMaskedMultiHeadAttention", [given(one), given(one * 2), given(one + 1), given(shown), given(extra), *map(given, caches), None, None, None, bias], 3, num_heads=4, scale=0.2,
     want=single(attended(one + bias[:32], one * 2 + bias[32:64], one + 1 + bias[64:], 4, 0.2, extra + np.where(shown, 0, -10000.0)[:, None, None], caches),
                 *(np.concatenate([p, heads_of(x, 4)], 2) for p, x in zip(caches, (one * 2 + bias[32:64], one + 1 + bias[64:])))))
case("decoder_masked_cross", "DecoderMaskedMultiHeadAttention", [given(one), given(normal(2, 4, 7, 8)), given(normal(2, 4, 7, 8))], num_heads=4)
case("decoder_masked_shared_buffer", "DecoderMaskedMultiHeadAttention", [given(one), given(one), given(one), None, None, *past, given(ints(1))], 3, num_heads=4, past_present_share_buffer=1)  # the last of its slots hold what is not seen
shared = [given(np.concatenate([p, np.zeros((2, 4, 3, 8), np.float32)], 2)) for p in caches]
case("decoder_masked_shared_buffer_mask", "DecoderMaskedMultiHeadAttention", [given(one), given(one * 2), given(one + 1), given((np.arange(4) < np.array([[2], [4]])).astype(np.int32)), given(normal(1, 4, 1, 4)), *shared, given(ints(3)), None, None, bias], 3, num_heads=4, past_present_share_buffer=1)
case("decoder_masked_beams", "DecoderMaskedMultiHeadAttention", [given(one), given(one), given(one), None, None, *shared, given(ints(3)), given(ints(2))], 3, num_heads=4, past_present_share_buffer=1, refused="beam_width")
# Attention: merged projections.
x, wide, bias = normal(2, 5, 24), normal(24, 96, scale=0.3), normal(96)
case("attention", "Attention", [given(x), wide, bias], num_heads=4)
case("attention_no_bias", "Attention", [given(x), wide], num_heads=4, scale=0.5)
case("attention_sizes", "Attention", [given(x), normal(24, 16 + 16 + 40), normal(72)], num_heads=4, qkv_hidden_sizes=[16, 16, 40])
case("attention_causal", "Attention", [given(x), wide, bias], num_heads=4, unidirectional=1)
case("attention_mask_ends", "Attention", [given(x), wide, bias, given(ints(3, 5))], num_heads=4)
case("attention_mask_ends_and_starts", "Attention", [given(x), wide, bias, given(ints(5, 4, 2, 0))], num_heads=4)
case("attention_mask_2d", "Attention", [given(x), wide, bias, given((np.arange(5) < np.array([[3], [5]])).astype(np.int32))], num_heads=4)
case("attention_mask_3d_causal", "Attention", [given(x), wide, bias, given(R.integers(0, 2, (2, 5, 5)).astype(np.int32))], num_heads=4, unidirectional=1, mask_filter_value=-1.5)
case("attention_bias", "Attention", [given(x), wide, bias, None, None, given(normal(2, 1, 5, 5))], num_heads=4)
case("attention_bias_and_mask", "Attention", [given(x), wide, bias, given(ints(3, 5)), None, given(normal(1, 4, 5, 5))], num_heads=4)
state = normal(2, 2, 4, 3, 8)
case("attention_present", "Attention", [given(x), wide, bias], 2, num_heads=4, unidirectional=1)
case("attention_past", "Attention", [given(x), wide, bias, None, given(state)], 2, num_heads=4, unidirectional=1)
case("attention_past_mask", "Attention", [given(x), wide, bias, given((np.arange(8) >= np.array([[2], [0]])).astype(np.int32)), given(state)], 2, num_heads=4)
case("attention_rotary", "Attention", [given(x), wide, bias], num_heads=4, do_rotary=1, refused="do_rotary")
case("attention_mask_4d", "Attention", [given(x), wide, bias, given(np.ones((2, 1, 8, 8), np.int32))], num_heads=4, refused="rank 4 of the mask")
# QAttention: as Attention, from exact products of integers.
qx, qw = R.integers(0, 256, (2, 5, 24)).astype(np.uint8), R.integers(-63, 64, (24, 96)).astype(np.int8)
sx, sw, zx = np.float32(0.02), np.float32(0.01), np.uint8(121)
case("qattention_plain", "QAttention", [given(qx), qw, bias, sx, sw], num_heads=4, limit=1e-4)
case("qattention_zero_points", "QAttention", [given(qx), qw, bias, sx, sw, None, zx, np.int8(3)], num_heads=4, unidirectional=1, limit=1e-4)
case("qattention_columns", "QAttention", [given(qx), qw, bias, sx, R.uniform(0.005, 0.02, 96).astype(np.float32), given(ints(3, 5)), zx, np.zeros(96, np.int8)], num_heads=4, limit=1e-4)
case("qattention_past", "QAttention", [given(qx), qw, bias, sx, sw, None, zx, np.int8(0), given(state)], 2, num_heads=4, unidirectional=1, limit=1e-4)
# RotaryEmbedding.
cos, sin = rotary(32, 4)
for inter in (0, 1):
    case(f"rotary_embedding_{inter}", "RotaryEmbedding", [given(normal(2, 5, 24)), given(R.integers(0, 32, (2, 5))), cos, sin], interleaved=inter)
    case(f"rotary_embedding_heads_{inter}", "RotaryEmbedding", [given(normal(2, 3, 5, 8)), given(R.integers(0, 32, (2, 5))), cos, sin], interleaved=inter)
    case(f"rotary_embedding_first_{inter}", "RotaryEmbedding", [given(normal(2, 5, 24)), given(np.array([7])), cos, sin], interleaved=inter)
    case(f"rotary_embedding_partial_{inter}", "RotaryEmbedding", [given(normal(2, 5, 36)), given(R.integers(0, 32, (2, 5))), cos, sin], interleaved=inter, num_heads=3, rotary_embedding_dim=8)
case("rotary_embedding_packed_batching", "RotaryEmbedding", [given(normal(2, 5, 24)), given(np.array([7])), cos, sin], is_packed_batching=1, refused="is_packed_batching")
# GroupQueryAttention: the rest.


def packed_query(name, batch, new, past, heads=4, kv=2, d=16, **attributes):
    total = past + new
    c, s = rotary(64, d // 2)
    inputs = [given(normal(batch, new, (heads + 2 * kv) * d)), None, None, given(normal(batch, kv, past, d)), given(normal(batch, kv, past, d)), given(np.full(batch, total - 1, np.int32)), given(np.array(total, np.int32))]
    case(name, "GroupQueryAttention", inputs + ([c, s] if attributes.get("do_rotary") else []), 3, num_heads=heads, kv_num_heads=kv, limit=1e-4, **attributes)


packed_query("group_query_packed", 2, 6, 0)
packed_query("group_query_packed_rotary", 2, 1, 9, do_rotary=1)


def group_query_more(name, batch, new, past, heads=4, kv=2, d=16, bias=None, sink=None, positions=None, turned=None, refused=False, **attributes):
    total = past + new
    c, s = rotary(64, turned or d // 2)
    inputs = [given(normal(batch, new, heads * d)), given(normal(batch, new, kv * d)), given(normal(batch, new, kv * d)), given(normal(batch, kv, past, d)), given(normal(batch, kv, past, d)),
              given(np.full(batch, total - 1, np.int32)), given(np.array(total, np.int32)), *([c, s] if attributes.get("do_rotary") else [None, None]),
              positions, None if bias is None else given(normal(*bias, new, total)), None if sink is None else normal(heads)]
    while inputs and inputs[-1] is None:
        inputs.pop()
    case(name, "GroupQueryAttention", inputs, 3, num_heads=heads, kv_num_heads=kv, limit=1e-4, refused=refused, **attributes)


group_query_more("group_query_bias", 2, 6, 0, bias=(1, 4))
group_query_more("group_query_bias_next", 2, 1, 9, bias=(2, 1), softcap=4.0)
group_query_more("group_query_sink", 2, 6, 0, sink=1)
group_query_more("group_query_sink_next", 2, 1, 9, sink=1, scale=0.3, bias=(1, 1))
group_query_more("group_query_smooth", 2, 6, 0, smooth_softmax=1)
group_query_more("group_query_smooth_window", 1, 8, 0, smooth_softmax=1, local_window_size=3)
group_query_more("group_query_window_prompt", 1, 8, 0, local_window_size=3)
group_query_more("group_query_positions", 2, 1, 9, positions=given(np.array([[4], [12]])), do_rotary=1)
group_query_more("group_query_partial_rotary", 1, 6, 0, d=32, do_rotary=1, turned=8)
group_query_more("group_query_bidirectional", 2, 6, 0, causal=0)
group_query_more("group_query_one_kv_head", 2, 3, 0, kv=1, bias=(1, 1), sink=1, softcap=5.0)
group_query_more("group_query_chunk", 1, 4, 9)
group_query_more("group_query_sliding_cache", 1, 1, 12, sliding_window_cache=1, local_window_size=4, refused="sliding_window_cache")
group_query_more("group_query_quantised_cache", 1, 1, 12, k_quant_type="PER_TENSOR", refused="k_quant_type")


# Without padding: no kernels for this processor.
def by_sequence(q, k, v, ends, n, scale=None):
    return single(np.concatenate([attended(q[a:b], k[a:b], v[a:b], n, scale) for a, b in zip(ends, ends[1:])]))


tokens, offsets, ends = normal(7, 24), ints(0, 4, 5, 8, 9, 10, 11, 1, 2, 3, 6, 7).reshape(3, 4), ints(0, 1, 3, 7)
p = tokens @ wide + bias
case("packed_attention", "PackedAttention", [given(tokens), wide, bias, given(offsets), given(ends)], num_heads=4, want=by_sequence(p[:, :32], p[:, 32:64], p[:, 64:], ends, 4))
w2 = normal(24, 72, scale=0.3)
p = tokens @ w2
case("packed_attention_sizes", "PackedAttention", [given(tokens), w2, np.zeros(72, np.float32), given(offsets), given(ends)], num_heads=4, qkv_hidden_sizes=[16, 16, 40], scale=0.2, want=by_sequence(p[:, :16], p[:, 16:32], p[:, 32:], ends, 4, 0.2))
case("packed_attention_bias", "PackedAttention", [given(tokens), wide, bias, given(offsets), given(ends), given(normal(1, 1, 4, 4))], num_heads=4, refused="attention_bias")
a, b, c = normal(7, 24), normal(7, 24), normal(7, 32)
case("packed_multi_head_attention", "PackedMultiHeadAttention", [given(a), given(b), given(c), None, given(offsets), given(ends)], num_heads=4, want=by_sequence(a, b, c, ends, 4))
padded = normal(3, 4, 6)
lengths = ints(1, 2, 4)
keep = [(i, j) for i in range(3) for j in range(4) if j < lengths[i]]
drop = [(i, j) for i in range(3) for j in range(4) if j >= lengths[i]]
compact = np.stack([padded[i, j] for i, j in keep])
case("remove_padding", "RemovePadding", [given(padded), given(lengths)], 4, want=[compact, ints(*[4 * i + j for i, j in keep + drop]).reshape(3, 4), ints(0, 1, 3, 7), ints(4)], limit=0)
case("restore_padding", "RestorePadding", [given(compact), given(offsets)], want=[np.where((np.arange(4) < lengths[:, None])[..., None], padded, 0)])


def t5(nb, table, nq, nk, longest, both):
    out = np.zeros((1, table.shape[0], nq, nk))
    for i in range(nq):
        for j in range(nk):
            n, b, k = i - j, 0, nb
            if both:
                k //= 2
                b, n = (k if n < 0 else 0), abs(n)
            else:
                n = max(n, 0)
            e = k // 2
            b += n if n < e else min(k - 1, e + int(np.log(n / e) / np.log(longest / e) * (k - e)))
            out[0, :, i, j] = table[:, b]
    return single(out)


table = normal(3, 8)
for both in (0, 1):
    case(f"relative_position_bias_{both}", "RelativePositionBias", [table.reshape(8, 3), given(np.array(11)), given(np.array(11))], is_bidirectional=both, max_distance=20, want=t5(8, table, 11, 11, 20, both))
x, qb, rel, w8, b8, eco = normal(2, 5, 12), normal(12), normal(1, 3, 5, 5), normal(4, 8), normal(8), normal(1, 3, 1, 1)
g = sigmoid((heads_of(x + qb, 3) @ w8 + b8).reshape(2, 3, 5, 2, 4).sum(-1))
case("gated_relative_position_bias", "GatedRelativePositionBias", [given(x), qb, given(rel), w8, b8, eco], num_heads=3, want=single((g[..., :1] * (g[..., 1:] * eco - 1) + 2) * rel))


# Norms of query and key: as without them on rows that are normalised already.
def normalised(v, weight, n, epsilon):
    h = v.reshape(*v.shape[:-1], n, -1).astype(np.float64)
    return (h / np.sqrt((h ** 2).mean(-1, keepdims=True) + epsilon) * weight).reshape(v.shape).astype(np.float32)


fq, fk, fv, wq, wk = normal(1, 5, 64), normal(1, 5, 32), normal(1, 5, 32), normal(16), normal(16)
y = attended(normalised(fq, wq, 4, 1e-3), np.repeat(normalised(fk, wk, 2, 1e-5).reshape(1, 5, 2, 1, 16), 2, 3).reshape(1, 5, 64), np.repeat(fv.reshape(1, 5, 2, 1, 16), 2, 3).reshape(1, 5, 64), 4, None, np.where(np.arange(5) > np.arange(5)[:, None], -np.inf, 0))
empty = given(np.zeros((1, 2, 0, 16), np.float32))
case("group_query_norms", "GroupQueryAttention", [given(fq), given(fk), given(fv), empty, empty, given(ints(4)), given(np.array(5, np.int32)), *[None] * 7, wq, wk], [1, 1, 1], num_heads=4, kv_num_heads=2, q_norm_epsilon=1e-3, qk_norm_epsilon=1e-5, limit=1e-4,
     want=single(y, heads_of(normalised(fk, wk, 2, 1e-5), 2), heads_of(fv, 2)))
