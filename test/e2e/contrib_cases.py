"""Cases of contrib.py: how they are written down, and those of fused and quantised operators."""
import numpy as np

CASES = []
R = np.random.default_rng(3)


def normal(*shape, scale=1.0):
    return (R.standard_normal(shape) * scale).astype(np.float32)


def bytes8(*shape):
    return R.integers(0, 256, shape).astype(np.uint8)


def signed8(*shape):
    return R.integers(-128, 128, shape).astype(np.int8)


def weights8(*shape):
    """Seven bits: where there is no VNNI, onnxruntime adds pairs of products in 16 bits that saturate."""
    return R.integers(-63, 64, shape).astype(np.int8)


def scale(*shape):
    return R.uniform(0.01, 0.05, shape).astype(np.float32)


def case(name, op, inputs, outputs=1, limit=1e-5, refused=False, want=None, **attributes):
    """`inputs`: arrays are constants, ("in", array) are inputs of the graph, None is absent. `outputs`: a number, or a list where None is absent. `want`: the results, where onnxruntime cannot tell; `refused`: True, or what the refusal must name."""
    CASES.append((name, op, inputs, outputs, limit, refused, want, attributes))


def graph(name, text, feeds, limit=1e-5):
    """A whole model in ONNX's text form; onnxruntime tells the results."""
    CASES.append((name, text, feeds, 1, limit, False, None, {}))


def given(array):
    return ("in", array)


# Activations and what is fused with them.
case("gelu", "Gelu", [given(normal(3, 70, scale=3))])
case("bias_gelu", "BiasGelu", [given(normal(2, 5, 64, scale=3)), normal(64)])
case("fast_gelu", "FastGelu", [given(normal(2, 5, 64, scale=3))])
case("fast_gelu_bias", "FastGelu", [given(normal(2, 5, 64, scale=3)), normal(64)])
case("quick_gelu", "QuickGelu", [given(normal(3, 70, scale=3))])
case("quick_gelu_alpha", "QuickGelu", [given(normal(3, 70, scale=3))], alpha=0.7)
for a, p in (("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.3]), ("HardSigmoid", [0.3, 0.4]), ("Clip", [-0.5, 1.5])):
    case(f"fused_conv_{a.lower()}", "FusedConv", [given(normal(1, 5, 9, 8)), normal(7, 5, 3, 3), normal(7)], activation=a, **({"activation_params": p} if p else {}), pads=[1, 1, 1, 1])
case("fused_conv_sum", "FusedConv", [given(normal(1, 6, 9, 9)), normal(8, 3, 3, 3), normal(8), given(normal(1, 8, 4, 4))], activation="Relu", strides=[2, 2], group=2)
case("fused_conv_dilated", "FusedConv", [given(normal(2, 4, 11, 12)), normal(6, 4, 3, 3)], activation="Relu", dilations=[2, 2], pads=[2, 2, 2, 2])
for a, e in (("Relu", {}), ("Tanh", {}), ("LeakyRelu", {"activation_alpha": 0.2})):
    case(f"fused_gemm_{a.lower()}", "FusedGemm", [given(normal(7, 20)), normal(15, 20), normal(15)], activation=a, transB=1, alpha=0.5, **e)
case("fused_matmul", "FusedMatMul", [given(normal(2, 3, 7, 9)), given(normal(2, 3, 9, 5))], alpha=0.25)
case("fused_matmul_trans_a", "FusedMatMul", [given(normal(2, 9, 7)), given(normal(2, 9, 5))], transA=1)
case("fused_matmul_trans_b", "FusedMatMul", [given(normal(2, 7, 9)), given(normal(2, 5, 9))], transB=1, alpha=2.0)
case("fused_matmul_trans_both", "FusedMatMul", [given(normal(9, 7)), normal(5, 9)], transA=1, transB=1)
case("fused_matmul_trans_batch", "FusedMatMul", [given(normal(7, 2, 9)), given(normal(2, 9, 5))], transBatchA=1)
# Normalisation.
case("skip_layer_norm", "SkipLayerNormalization", [given(normal(2, 5, 48)), given(normal(2, 5, 48)), normal(48), normal(48)], epsilon=1e-5)
case("skip_layer_norm_bias_sum", "SkipLayerNormalization", [given(normal(2, 5, 48)), given(normal(2, 5, 48)), normal(48), normal(48), normal(48)], [1, None, None, 1])
case("skip_layer_norm_no_beta", "SkipLayerNormalization", [given(normal(2, 5, 48)), given(normal(2, 5, 48)), normal(48)])
case("skip_layer_norm_broadcast", "SkipLayerNormalization", [given(normal(3, 5, 48)), given(normal(5, 48)), normal(48), normal(48)])
case("skip_simplified_layer_norm", "SkipSimplifiedLayerNormalization", [given(normal(2, 5, 48)), given(normal(2, 5, 48)), normal(48), normal(48)], [1, None, None, 1], epsilon=1e-5)
ids, kinds = R.integers(0, 30, (2, 6)).astype(np.int32), R.integers(0, 2, (2, 6)).astype(np.int32)
words, places, segments = normal(30, 32), normal(16, 32), normal(2, 32)
case("embed_layer_norm", "EmbedLayerNormalization", [given(ids), given(kinds), words, places, segments, normal(32), normal(32)], [1, None], epsilon=1e-5)
case("embed_layer_norm_no_segments", "EmbedLayerNormalization", [given(ids), None, words, places, None, normal(32), normal(32)], [1, None])
case("embed_layer_norm_positions", "EmbedLayerNormalization", [given(ids), given(kinds), words, places, segments, normal(32), normal(32), None, given(R.integers(0, 16, (2, 6)).astype(np.int32))], [1, None])
case("embed_layer_norm_sum", "EmbedLayerNormalization", [given(ids), given(kinds), words, places, segments, normal(32), normal(32)], [1, None, 1])
case("embed_layer_norm_mask", "EmbedLayerNormalization", [given(ids), given(kinds), words, places, segments, normal(32), normal(32), given((np.arange(6) < np.array([[4], [6]])).astype(np.int32))], [1, 1], epsilon=1e-5)
# Integers. onnxruntime's own integer kernels round once; a unit in the last place may differ where a product is a tie.
s1, s2, s3 = np.float32(0.031), np.float32(0.047), np.float32(0.083)
z1, z2, z3 = np.uint8(121), np.uint8(7), np.uint8(130)
case("qlinear_add", "QLinearAdd", [given(bytes8(3, 40)), s1, z1, given(bytes8(3, 40)), s2, z2, s3, z3], limit=1)
case("qlinear_add_signed", "QLinearAdd", [given(signed8(3, 40)), s1, np.int8(-3), given(signed8(40)), s2, np.int8(9), s3, np.int8(0)], limit=1)
case("qlinear_mul", "QLinearMul", [given(bytes8(3, 40)), s1, z1, given(bytes8(3, 40)), s2, z2, s3, z3], limit=1)
case("qlinear_sigmoid", "QLinearSigmoid", [given(bytes8(3, 40)), s2, z1, np.float32(1 / 256), np.uint8(0)], limit=1)
case("qlinear_leaky_relu", "QLinearLeakyRelu", [given(bytes8(3, 40)), s2, z1, s3, z3], alpha=0.2, limit=1)
case("qlinear_softmax", "QLinearSoftmax", [given(bytes8(3, 40)), s2, z1, np.float32(1 / 256), np.uint8(0)], opset=13, axis=-1, limit=1)
case("qlinear_softmax_old", "QLinearSoftmax", [given(bytes8(3, 4, 10)), s2, z1, np.float32(1 / 256), np.uint8(0)], opset=11, axis=1, limit=1)
case("qlinear_global_average_pool", "QLinearGlobalAveragePool", [given(bytes8(2, 9, 7, 5)), s2, z1, s1, z3], limit=1)
case("qlinear_average_pool", "QLinearAveragePool", [given(bytes8(2, 9, 8, 6)), s2, z1, s1, z3], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], limit=1)
case("qlinear_concat", "QLinearConcat", [s3, z3, given(bytes8(2, 5)), s1, z1, given(bytes8(2, 7)), s2, z2], axis=1, limit=1)
case("qgemm", "QGemm", [given(bytes8(5, 24)), s1, z1, weights8(24, 9), s2, np.int8(0), R.integers(-900, 900, 9).astype(np.int32), np.float32(1.9), z3], limit=1)
case("qgemm_float", "QGemm", [given(bytes8(5, 24)), s1, z1, weights8(9, 24), scale(9), np.zeros(9, np.int8), R.integers(-900, 900, 9).astype(np.int32)], transB=1)
case("qgemm_alpha", "QGemm", [given(bytes8(5, 24)), s1, z1, weights8(24, 9), s2, np.int8(3), R.integers(-900, 900, 9).astype(np.int32)], alpha=0.5)
case("matmul_integer_to_float", "MatMulIntegerToFloat", [given(bytes8(2, 5, 24)), weights8(24, 9), s1, scale(9), z1, np.zeros(9, np.int8), normal(9)])
case("dynamic_quantize_matmul", "DynamicQuantizeMatMul", [given(normal(2, 5, 24)), weights8(24, 9), scale(9), np.zeros(9, np.int8), normal(9)])
case("dynamic_quantize_matmul_one_scale", "DynamicQuantizeMatMul", [given(normal(5, 24)), (bytes8(24, 9) // 4 + 96), s1, np.uint8(128)])
case("quantize_linear_16", "QuantizeLinear", [given(normal(3, 8)), np.float32(0.001), np.uint16(30000)], limit=1)
case("dequantize_linear_16", "DequantizeLinear", [given(R.integers(-30000, 30000, (3, 8)).astype(np.int16)), np.float32(0.001), np.int16(12)])
case("qattention", "QAttention", [given(bytes8(1, 4, 16)), weights8(16, 48), normal(48), s1, s2, None, z1, np.int8(0)], num_heads=2, limit=1e-4)
# Weights of few bits.
for bits, k, block in ((4, 64, 32), (4, 80, 32), (8, 64, 16), (4, 128, 128)):
    blocks = -(-k // block)
    args = [given(normal(3, k)), bytes8(24, blocks, block * bits // 8), scale(24 * blocks)]
    case(f"matmul_{bits}_bits_{k}_by_{block}", "MatMulNBits", args, K=k, N=24, bits=bits, block_size=block, limit=1e-4)
    case(f"matmul_{bits}_bits_{k}_by_{block}_zeros", "MatMulNBits", args + [bytes8(24 * -(-blocks * bits // 8))], K=k, N=24, bits=bits, block_size=block, limit=1e-4)
case("matmul_4_bits_bias", "MatMulNBits", [given(normal(2, 3, 64)), bytes8(24, 2, 16), scale(48), None, None, normal(24)], K=64, N=24, bits=4, block_size=32, limit=1e-4)
case("matmul_4_bits_reordered", "MatMulNBits", [given(normal(3, 64)), bytes8(24, 2, 16), scale(48), None, R.integers(0, 2, 64).astype(np.int32)], K=64, N=24, bits=4, block_size=32, limit=1e-4)
w, r, b = weights8(1, 12, 32), weights8(1, 8, 32), normal(1, 64)
# onnxruntime quantises what goes into the cells too; ours keeps it float: the difference is that noise.
case("dynamic_quantize_lstm", "DynamicQuantizeLSTM", [given(normal(6, 2, 12)), w, r, b, None, None, None, None, np.full((1,), 0.004, np.float32), np.zeros(1, np.int8), np.full((1,), 0.004, np.float32), np.zeros(1, np.int8)],
     3, hidden_size=8, limit=0.02)
case("unknown_operator", "QOrderedGelu", [given(normal(3, 3))], refused=True)
case("unknown_attribute", "QuickGelu", [given(normal(3, 70))], refused="attribute 'beta'", beta=1.0)
case("unknown_input", "QuickGelu", [given(normal(3, 70)), normal(70)], refused="input 1")


# Every activation of fused operators, channels last, residuals.
case("fused_conv_no_activation", "FusedConv", [given(normal(1, 5, 9, 8)), normal(7, 5, 3, 3)], auto_pad="SAME_UPPER")
case("fused_conv_1d", "FusedConv", [given(normal(2, 3, 20)), normal(6, 3, 5), normal(6)], activation="LeakyRelu", activation_params=[0.1], strides=[2])
case("fused_gemm_sigmoid_beta", "FusedGemm", [given(normal(20, 7)), normal(20, 15), normal(7, 1)], activation="Sigmoid", transA=1, beta=0.3)
case("fused_gemm_plain", "FusedGemm", [given(normal(7, 20)), normal(20, 15)], activation="Relu")
case("fused_matmul_trans_batch_both", "FusedMatMul", [given(normal(7, 2, 9)), given(normal(9, 2, 5))], transBatchA=1, transBatchB=1)
case("fused_matmul_trans_batch_rank_4", "FusedMatMul", [given(normal(7, 2, 3, 9)), given(normal(2, 3, 9, 5))], transBatchA=1, alpha=0.5)
case("fused_matmul_trans_batch_and_trans", "FusedMatMul", [given(normal(9, 2, 7)), given(normal(2, 5, 9))], transBatchA=1, transA=1, transB=1)
case("transpose_matmul", "TransposeMatMul", [given(normal(2, 9, 7)), given(normal(2, 9, 5))], transA=1, alpha=2.0)
x, w = normal(3, 6), normal(6, 4)
case("fused_matmul_activation", "FusedMatMulActivation", [given(x), w], activation="LeakyRelu", activation_alpha=0.2, alpha=2.0, want=[np.where(x @ w > 0, 2 * x @ w, 0.4 * (x @ w)).astype(np.float32)])
case("fused_matmul_activation_unknown", "FusedMatMulActivation", [given(x), w], activation="Gelu", refused="activation 'Gelu'")
case("conv_transpose_dynamic_pads", "ConvTransposeWithDynamicPads", [given(normal(1, 3, 5, 6)), normal(3, 4, 3, 3), given(np.array([1, 0, 1, 1], np.int64)), normal(4)], strides=[2, 2])
case("conv_transpose_dynamic_pads_constant", "ConvTransposeWithDynamicPads", [given(normal(1, 4, 5, 6)), normal(4, 2, 3, 3), np.array([1, 1, 0, 1], np.int64)], strides=[2, 1], group=2, dilations=[1, 2])
case("conv_transpose_output_padding", "ConvTransposeWithDynamicPads", [given(normal(1, 3, 5, 6)), normal(3, 4, 3, 3), np.zeros(4, np.int64)], output_padding=[1, 0], strides=[2, 2])



def convolved(x, w, group, pad):
    """Channels last."""
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    m, c, kh, kw = w.shape
    out = np.zeros((x.shape[0], x.shape[1] - kh + 1, x.shape[2] - kw + 1, m))
    for g in range(group):
        part = x[..., g * c:(g + 1) * c]
        for o in range(g * m // group, (g + 1) * m // group):
            for i in range(kh):
                for j in range(kw):
                    out[..., o] += part[:, i:i + out.shape[1], j:j + out.shape[2]] @ w[o, :, i, j]
    return out


x, w = normal(2, 7, 6, 4), normal(6, 2, 3, 3)
b, z = normal(6), normal(2, 7, 6, 6)
case("nhwc_fused_conv", "NhwcFusedConv", [given(x), w, b, given(z)], activation="Relu", group=2, pads=[1, 1, 1, 1], want=[np.maximum(convolved(x, w, 2, 1) + b + z, 0).astype(np.float32)], limit=1e-4)
# Activations without a kernel of onnxruntime.
x, b = normal(2, 3, 8), normal(8)


def erf(v):
    from math import erf
    return np.vectorize(erf)(v)


def gelu(v):
    return v * 0.5 * (1 + erf(v / np.sqrt(2)))


def gelu_tanh(v):
    return 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v ** 3)))


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def softmax(v):
    e = np.exp(v - v.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def single(*arrays):
    return [np.asarray(a, np.float32) for a in arrays]


case("bias_split_gelu", "BiasSplitGelu", [given(x), b], want=single((x + b)[..., :4] * gelu((x + b)[..., 4:])))
case("bias_add", "BiasAdd", [given(x), b, given(x[::-1].copy())], want=single(x + b + x[::-1]))
case("bias_dropout", "BiasDropout", [given(x), b, given(x[::-1].copy()), np.float32(0.3)], seed=3, want=single(x + b + x[::-1]))
case("bias_dropout_training", "BiasDropout", [given(x), b, None, np.float32(0.3), np.array(True)], refused="training_mode")
case("bitmask_dropout", "BitmaskDropout", [given(x)], want=single(x))
w = normal(8, 5)
case("gemm_fast_gelu", "GemmFastGelu", [given(x), w, normal(5) * 0], want=single(gelu_tanh(x.astype(np.float64) @ w)))
case("bias_softmax_outer", "BiasSoftmax", [given(x), given(b)], axis=2, is_inner_broadcast=0, want=single(softmax(x + b)))
y = x + x[:, :1]
case("bias_softmax_inner", "BiasSoftmax", [given(x), given(x[:, :1].copy())], axis=1, is_inner_broadcast=1, want=single(softmax(y.reshape(2, -1)).reshape(y.shape)))
case("bias_softmax_inner_of_less_rank", "BiasSoftmax", [given(x), given(b)], axis=2, is_inner_broadcast=1, refused="is_inner_broadcast")
case("scaled_silu", "ScaledSiLU", [given(x)], alpha=1.5)
case("scaled_silu_scale", "ScaledSiLU", [given(x), np.float32(0.7)])
case("fast_gelu_rank_1", "FastGelu", [given(normal(9, scale=3))])
# Normalisation by groups, gates.
for last in (0, 1):
    x, skip, bias = normal(2, 6, 5, 4), normal(2, 6), normal(6)
    gamma, beta = normal(6), normal(6)
    full = normal(2, 6, 5, 4)

    def grouped(v, act):
        g = v.reshape(2, 3, -1).astype(np.float64)
        n = ((g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + 1e-4)).reshape(v.shape) * gamma[:, None, None] + beta[:, None, None]
        return n * sigmoid(n) if act else n

    def placed(v):
        return np.ascontiguousarray(np.moveaxis(v, 1, -1)) if last else v

    case(f"group_norm_{last}", "GroupNorm", [given(placed(x)), gamma, beta], channels_last=last, groups=3, activation=last, epsilon=1e-4, want=single(placed(grouped(x, last))))
    total = x + skip[:, :, None, None] + bias[:, None, None]
    case(f"skip_group_norm_{last}", "SkipGroupNorm", [given(placed(x)), gamma, beta, given(skip), bias], 2, channels_last=last, groups=3, activation=1, epsilon=1e-4, want=single(placed(grouped(total, 1)), placed(total)))
    case(f"skip_group_norm_full_{last}", "SkipGroupNorm", [given(placed(x)), gamma, beta, given(placed(full))], channels_last=last, groups=3, activation=0, epsilon=1e-4, want=single(placed(grouped(x + full, 0))))
case("group_norm_activation", "GroupNorm", [given(normal(1, 4, 4, 6)), normal(6), normal(6)], groups=3, activation=2, refused="activation")
for a in ("silu", "sigmoid", "swish"):
    case(f"gated_rms_norm_{a}", "GatedRMSNorm", [given(normal(2, 3, 24)), normal(8), given(normal(2, 3, 24))], activation=a)
case("gated_add", "GatedAdd", [given(normal(2, 3, 24)), given(normal(2, 3, 24)), given(normal(2, 3, 1))])
case("skip_layer_norm_rank_2", "SkipLayerNormalization", [given(normal(7, 48)), given(normal(7, 48)), normal(48), normal(48)])
case("skip_simplified_no_bias", "SkipSimplifiedLayerNormalization", [given(normal(5, 48)), given(normal(5, 48)), normal(48)])
case("skip_layer_norm_mean", "SkipLayerNormalization", [given(normal(2, 5, 48)), given(normal(2, 5, 48)), normal(48)], [1, 1, 1, 1], epsilon=1e-5)
case("skip_simplified_deviation", "SkipSimplifiedLayerNormalization", [given(normal(2, 5, 48)), given(normal(2, 5, 48)), normal(48)], [1, None, 1, 1], epsilon=1e-5)
case("skip_simplified_mean", "SkipSimplifiedLayerNormalization", [given(normal(2, 5, 48)), given(normal(2, 5, 48)), normal(48)], [1, 1], refused="mean")
x, g = normal(2, 5, 48), normal(48)
root = np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-4)
case("simplified_layer_norm_deviation", "SimplifiedLayerNormalization", [given(x), g], 2, epsilon=1e-4, want=single(x / root * g, 1 / root))
case("embed_layer_norm_no_mask", "EmbedLayerNormalization", [given(ids), given(kinds), words, places, segments, normal(32), normal(32)], [1, 1])
case("embed_layer_norm_one_row_of_positions", "EmbedLayerNormalization", [given(ids), given(kinds), words, places, segments, normal(32), normal(32), None, given(R.integers(0, 16, (1, 6)).astype(np.int32))], [1, None])
qargs = [given(ids), given(kinds), bytes8(30, 32), bytes8(16, 32), bytes8(2, 32), bytes8(32), bytes8(32), given((np.arange(6) < np.array([[4], [6]])).astype(np.int32)),
         *[np.float32(v) for v in (0.03, 0.02, 0.04, 0.01, 0.02)], *[np.uint8(v) for v in (120, 128, 99, 0, 128)]]
case("q_embed_layer_norm", "QEmbedLayerNormalization", qargs, 2)
# More of the quantised ones.
x, y = bytes8(3, 40), signed8(40)
case("qlinear_add_no_zero_points", "QLinearAdd", [given(x), s1, None, given(x[:1].copy()), s2, None, s3], limit=1, want=[np.clip(np.rint((x * s1 + x[:1] * s2) / s3), 0, 255).astype(np.uint8)])
case("qlinear_mul_signed_no_zero_points", "QLinearMul", [given(y), s1, None, given(y), s2, None, s3], limit=1, want=[np.clip(np.rint((y * s1) * (y * s2) / s3), -128, 127).astype(np.int8)])
case("qlinear_softmax_signed", "QLinearSoftmax", [given(signed8(3, 40)), s2, np.int8(3), np.float32(1 / 256), np.int8(-128)], opset=13, axis=0, limit=1)
case("qlinear_global_average_pool_last", "QLinearGlobalAveragePool", [given(bytes8(2, 7, 5, 9)), s2, z1, s1, z3], channels_last=1, limit=1)
case("qlinear_average_pool_last", "QLinearAveragePool", [given(bytes8(2, 8, 6, 9)), s2, z1, s1, z3], kernel_shape=[3, 2], strides=[1, 2], channels_last=1, limit=1)
case("qlinear_average_pool_ceil", "QLinearAveragePool", [given(bytes8(2, 9, 8, 7)), s2, z1, s1, z3], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, pads=[1, 1, 1, 1], limit=1)
case("qlinear_average_pool_include", "QLinearAveragePool", [given(bytes8(2, 9, 8, 7)), s2, z1, s1, z3], kernel_shape=[3, 3], strides=[2, 2], count_include_pad=1, pads=[1, 1, 1, 1], limit=1)
case("qlinear_average_pool_ceil_include", "QLinearAveragePool", [given(bytes8(2, 9, 8, 7)), s2, z1, s1, z3], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, count_include_pad=1, refused="count_include_pad")
case("nhwc_max_pool", "NhwcMaxPool", [given(bytes8(2, 8, 6, 9))], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], limit=0)
case("nhwc_max_pool_signed", "NhwcMaxPool", [given(signed8(1, 9, 9, 16))], kernel_shape=[2, 2], dilations=[2, 2], ceil_mode=1, strides=[2, 2], limit=0)
case("qlinear_where", "QLinearWhere", [given(R.integers(0, 2, (3, 40)).astype(bool)), given(bytes8(3, 40)), s1, z1, given(bytes8(40)), s2, z2, s3, z3], limit=1)
case("qlinear_concat_three", "QLinearConcat", [s3, z3, given(bytes8(2, 5, 3)), s1, z1, given(bytes8(2, 5, 3)), s2, z2, given(bytes8(2, 5, 3)), s3, z3], axis=-2, limit=1)
for last in (0, 1):
    x = bytes8(2, 4, 9, 8)
    case(f"qlinear_conv_{last}", "QLinearConv", [given(np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x), s1, z1, weights8(6, 4, 3, 3), scale(6), np.zeros(6, np.int8), np.float32(1.1), z3, R.integers(-900, 900, 6).astype(np.int32)],
         channels_last=last, pads=[1, 1, 1, 1], strides=[1, 2], limit=1)
x = bytes8(3, 4, 5)
mean = ((x.astype(np.float64) - 121) * 0.25).mean(axis=(0, 2))
case("qlinear_reduce_mean", "QLinearReduceMean", [given(x), np.float32(0.25), np.uint8(121), np.float32(0.125), np.uint8(9)], axes=[0, -1], keepdims=0, want=[np.clip(np.rint(mean / 0.125) + 9, 0, 255).astype(np.uint8)], limit=1)
case("qgemm_transposed", "QGemm", [given(bytes8(24, 5)), s1, z1, weights8(9, 24), s2, np.int8(0), R.integers(-900, 900, (5, 1)).astype(np.int32), np.float32(1.9), z3], transA=1, transB=1, limit=1)
case("qgemm_signed", "QGemm", [given(signed8(5, 24)), s1, np.int8(3), weights8(24, 9), scale(9), np.zeros(9, np.int8), None, np.float32(1.9), np.int8(-4)], limit=1)
case("matmul_integer_to_float_plain", "MatMulIntegerToFloat", [given(bytes8(5, 24)), weights8(24, 9), s1, s2])
case("matmul_integer_to_float_signed", "MatMulIntegerToFloat", [given(signed8(5, 24)), signed8(24, 9) // 2, s1, s2, np.int8(3), np.int8(5), normal(9)])
case("matmul_integer_16", "MatMulInteger16", [given(R.integers(-3000, 3000, (2, 5, 24)).astype(np.int16)), R.integers(-3000, 3000, (24, 9)).astype(np.int16)], limit=0)
x, y = bytes8(3, 40), signed8(40)
case("mul_integer", "MulInteger", [given(x), np.uint8(7), given(y), np.int8(-2)], want=[(x.astype(np.int32) - 7) * (y.astype(np.int32) + 2)], limit=0)
case("reduce_sum_integer", "ReduceSumInteger", [given(x)], axes=[1], keepdims=1, want=[x.astype(np.uint32).sum(1, keepdims=True, dtype=np.uint32)], limit=0)
case("quantize_linear_axis", "QuantizeLinear", [given(normal(3, 8)), scale(8), bytes8(8)], axis=1, limit=1)
case("dequantize_linear_axis", "DequantizeLinear", [given(bytes8(3, 8)), scale(3), bytes8(3)], axis=0)
case("dequantize_linear_32", "DequantizeLinear", [given(R.integers(-30000, 30000, (3, 8)).astype(np.int32)), np.float32(0.001)])
w, r, b = signed8(2, 12, 32) // 2, signed8(2, 8, 32) // 2, normal(2, 64)
case("dynamic_quantize_lstm_columns", "DynamicQuantizeLSTM", [given(normal(6, 2, 12)), w, r, b, given(np.array([6, 3], np.int32)), given(normal(2, 2, 8)), given(normal(2, 2, 8)), None, scale(2, 32) / 8, np.zeros((2, 32), np.int8), scale(2, 32) / 8, np.zeros((2, 32), np.int8)],
     3, hidden_size=8, direction="bidirectional", limit=0.03)
# More weights of few bits.
case("matmul_2_bits", "MatMulNBits", [given(normal(3, 80)), bytes8(24, 3, 8), scale(72), bytes8(24 * 1)], K=80, N=24, bits=2, block_size=32, limit=1e-4)
case("matmul_4_bits_real_zeros", "MatMulNBits", [given(normal(3, 80)), bytes8(24, 3, 16), scale(72), R.uniform(5, 9, 72).astype(np.float32)], K=80, N=24, bits=4, block_size=32, limit=1e-4)
x, q8, sc, zp, bias = normal(3, 64), bytes8(24, 2, 32), scale(24, 2), R.uniform(99, 140, (24, 2)).astype(np.float32), normal(24)
case("matmul_8_bits_real_zeros", "MatMulNBits", [given(x), q8, sc, zp, None, bias], K=64, N=24, bits=8, block_size=32, limit=1e-4, want=single(x @ ((q8 - zp[..., None].astype(np.float64)) * sc[..., None]).reshape(24, 64).T + bias))
case("matmul_4_bits_reordered_zeros", "MatMulNBits", [given(normal(3, 96)), bytes8(24, 3, 16), scale(72), bytes8(48), R.integers(0, 3, 96).astype(np.int32)], K=96, N=24, bits=4, block_size=32, refused="zero_points")
case("matmul_3_bits", "MatMulNBits", [given(normal(3, 64)), bytes8(24, 2, 12), scale(48)], K=64, N=24, bits=3, block_size=32, refused="attribute 'bits' of 3")
case("matmul_4_bits_prepacked", "MatMulNBits", [given(normal(3, 64)), bytes8(24, 2, 16), scale(48)], K=64, N=24, bits=4, block_size=32, weight_prepacked=1, refused="weight_prepacked")
for kind in (0, 1):
    case(f"matmul_bnb4_{kind}", "MatMulBnb4", [given(normal(3, 64)), bytes8(24 * 32), scale(24 * 4)], K=64, N=24, block_size=16, quant_type=kind, limit=1e-4)
case("matmul_bnb4_ragged", "MatMulBnb4", [given(normal(3, 40)), bytes8(9 * 20), scale(6)], K=40, N=9, block_size=64, quant_type=1, limit=1e-4)
case("matmul_bnb4_not_transposed", "MatMulBnb4", [given(normal(3, 24)), bytes8(24 * 32), scale(24 * 4)], K=64, N=24, block_size=16, quant_type=0, transB=0, refused="transB")
indices = R.integers(-30, 30, (2, 5)).astype(np.int64)
for bits in (4, 8):
    args = [bytes8(30, 64 * bits // 8), given(indices), scale(30, 2)]
    case(f"gather_{bits}_bits", "GatherBlockQuantized", args, bits=bits, block_size=32, quantize_axis=1, gather_axis=0)
    case(f"gather_{bits}_bits_zeros", "GatherBlockQuantized", args + [bytes8(30, 2 * bits // 8)], bits=bits, block_size=32, quantize_axis=1, gather_axis=0)
data, sc, zp = bytes8(6, 32, 8), scale(6, 2, 16), bytes8(6, 2, 8)


def nibbles(v):
    return np.stack([v & 15, v >> 4], -1).reshape(*v.shape[:-1], -1).astype(np.float64)


real = ((nibbles(data).reshape(6, 2, 16, 16) - nibbles(zp)[:, :, None]) * sc[:, :, None]).reshape(6, 32, 16)
case("gather_4_bits_three_axes", "GatherBlockQuantized", [data, given(np.array([5, 0, -1], np.int32)), sc, zp], bits=4, block_size=16, quantize_axis=1, gather_axis=0, want=single(real[[5, 0, -1]]))
case("gather_2_bits", "GatherBlockQuantized", [bytes8(30, 16), given(indices), scale(30, 2), bytes8(30, 1)], bits=2, block_size=32, quantize_axis=1, gather_axis=0)
case("gather_out_of_range", "GatherBlockQuantized", [bytes8(30, 32), given(np.array([3, 30, -31])), scale(30, 2)], bits=4, block_size=32, quantize_axis=1, gather_axis=0)
case("gather_4_bits_same_axis", "GatherBlockQuantized", [bytes8(32, 8), given(indices)] + [scale(2, 16)], bits=4, block_size=16, quantize_axis=0, gather_axis=0, refused="gather_axis")
# Half floats: sums are in float, results rounded to half.
half = np.float16
case("half_matmul_4_bits", "MatMulNBits", [given(normal(3, 64).astype(half)), bytes8(24, 2, 16), scale(48).astype(half)], K=64, N=24, bits=4, block_size=32, limit=3e-3)
case("half_skip_layer_norm", "SkipLayerNormalization", [given(normal(2, 5, 48).astype(half)), given(normal(2, 5, 48).astype(half)), normal(48).astype(half), normal(48).astype(half)], [1, None, None, 1], limit=3e-3)
case("half_gather_4_bits", "GatherBlockQuantized", [bytes8(30, 32), given(indices), scale(30, 2).astype(half)], bits=4, block_size=32, limit=2e-3)
x, b = normal(2, 3, 8).astype(half), normal(8).astype(half)
case("half_bias_gelu", "BiasGelu", [given(x), b], want=[gelu(x.astype(np.float64) + b).astype(half)], limit=3e-3)
