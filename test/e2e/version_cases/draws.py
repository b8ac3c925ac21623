"""Random operators: what they draw has the distribution that they name. numpy only; the seeds are fixed, so a run is the same each time."""
import math
import os
import tempfile

import numpy as np
import onnx

from harness import Fault

COUNT = 200_000
TEXT = "g (float[400,500] x, float[2,4] logits, float[100,2000] p) => (float a, float16 b, double c, float d, double e, float f, float g0, double h, double h2, int32 m, int64 m2, bool r, float r2, float s1, float s2) {"
BODY = """ a = RandomNormal<shape = [400, 500], mean = 1.5, scale = 2.0, seed = 7.0>()
 b = RandomNormal<shape = [200000], dtype = 10, mean = -0.5, scale = 0.25, seed = 8.0>()
 c = RandomNormal<shape = [200000], dtype = 11, seed = 9.0>()
 d = RandomUniform<shape = [400, 500], low = -3.0, high = 5.0, seed = 1.0>()
 e = RandomUniform<shape = [200000], dtype = 11, seed = 2.0>()
 f = RandomNormalLike<mean = 10.0, scale = 0.5, seed = 3.0>(x)
 g0 = RandomUniformLike<low = 2.0, high = 2.5, seed = 4.0>(x)
 h = RandomNormalLike<dtype = 11, seed = 5.0>(x)
 h2 = RandomUniformLike<dtype = 11, seed = 6.0>(x)
 m = Multinomial<sample_size = 100000, seed = 11.0>(logits)
 m2 = Multinomial<sample_size = 100000, dtype = 7, seed = 12.0>(logits)
 s1 = RandomUniform<shape = [1000], seed = 21.0>() s2 = RandomUniform<shape = [1000], seed = 22.0>()
"""
BERNOULLI = " r = Bernoulli<dtype = 9, seed = 13.0>(p) r2 = Bernoulli<seed = 14.0>(p) }"


def normal_cdf(v):
    """Phi, by the series of erf in numpy's range (Abramowitz and Stegun 7.1.26, off by 1.5e-7 at most)."""
    t = np.abs(v) / math.sqrt(2)
    k = 1 / (1 + 0.3275911 * t)
    erf = 1 - ((((1.061405429 * k - 1.453152027) * k + 1.421413741) * k - 0.284496736) * k + 0.254829592) * k * np.exp(-t * t)
    return 0.5 * (1 + np.sign(v) * erf)


def distance(sample, cdf):
    """Kolmogorov and Smirnov's."""
    at, n = cdf(np.sort(sample)), len(sample)
    return max(np.max(np.arange(1, n + 1) / n - at), np.max(at - np.arange(n) / n))


def looks(what, values, shape, dtype, mean, deviation, cdf, low=-np.inf, high=np.inf):
    if values.shape != shape or values.dtype != dtype:
        raise Fault(f"{what}: {values.dtype}{list(values.shape)}, expected {np.dtype(dtype)}{list(shape)}")
    v, n = values.astype(np.float64).ravel(), values.size
    grain = deviation * 2.0**-9 if dtype == np.float16 else 0  # half precision has steps
    if abs(v.mean() - mean) > 4.5 * deviation / math.sqrt(n) + grain:
        raise Fault(f"{what}: mean {v.mean():.5f}, expected {mean}")
    if abs(v.std() - deviation) > 4.5 * deviation / math.sqrt(n) + grain:
        raise Fault(f"{what}: deviation {v.std():.5f}, expected {deviation}")
    if v.min() < low or v.max() > high or (v.max() == high and dtype != np.float16):
        raise Fault(f"{what}: from {v.min()} to {v.max()}, expected [{low}, {high})")
    far = distance(v, cdf)
    if far > 1.95 / math.sqrt(n) + (0.002 if dtype == np.float16 else 0):  # one in a thousand of good samples is farther
        raise Fault(f"{what}: distance {far:.5f} of its distribution")
    rows = v[:n // 2 * 2].reshape(2, -1)  # halves that repeat or lean on each other
    if n > 1 and abs(np.corrcoef(rows)[0, 1]) > 4.5 / math.sqrt(n / 2):
        raise Fault(f"{what}: its halves correlate by {np.corrcoef(rows)[0, 1]:.4f}")
    if abs(np.corrcoef(v[1:], v[:-1])[0, 1]) > 4.5 / math.sqrt(n):
        raise Fault(f"{what}: neighbours correlate by {np.corrcoef(v[1:], v[:-1])[0, 1]:.4f}")


def check(tools, opset):
    """All random operators of one operator set."""
    bernoulli = opset >= 15
    text = (TEXT if bernoulli else TEXT.replace(", bool r, float r2", "")) + BODY + (BERNOULLI if bernoulli else "}")
    if opset < 7:  # no Multinomial yet
        text = "\n".join(line for line in text.splitlines() if "Multinomial" not in line).replace(", int32 m, int64 m2", "")
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
    for o in model.graph.output:
        o.type.tensor_type.ClearField("shape")
    rng = np.random.default_rng(0)
    logits = np.log(np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.05, 0.05, 0.2]], np.float32)) + np.float32(3)  # not normalised
    p = np.tile(np.linspace(0, 1, 2000, dtype=np.float32), (100, 1))
    feeds = {"x": rng.standard_normal((400, 500)).astype(np.float32), "logits": logits, "p": p}
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "draws.onnx")
        onnx.save(model, path)
        tools.compile(path, path + ".tsr")
        got = dict(zip([o.name for o in model.graph.output], tools.run(path + ".tsr", feeds, len(model.graph.output))))
    uniform = lambda low, high: dict(mean=(low + high) / 2, deviation=(high - low) / math.sqrt(12), cdf=lambda v: np.clip((v - low) / (high - low), 0, 1), low=low, high=high)  # noqa: E731
    normal = lambda mean, scale: dict(mean=mean, deviation=scale, cdf=lambda v: normal_cdf((v - mean) / scale))  # noqa: E731
    looks("RandomNormal", got["a"], (400, 500), np.float32, **normal(1.5, 2.0))
    looks("RandomNormal of float16", got["b"], (COUNT,), np.float16, **normal(-0.5, 0.25))
    looks("RandomNormal of double", got["c"], (COUNT,), np.float64, **normal(0, 1))
    looks("RandomUniform", got["d"], (400, 500), np.float32, **uniform(-3, 5))
    looks("RandomUniform of double", got["e"], (COUNT,), np.float64, **uniform(0, 1))
    looks("RandomNormalLike", got["f"], (400, 500), np.float32, **normal(10, 0.5))
    looks("RandomUniformLike", got["g0"], (400, 500), np.float32, **uniform(2, 2.5))
    looks("RandomNormalLike of double", got["h"], (400, 500), np.float64, **normal(0, 1))
    looks("RandomUniformLike of double", got["h2"], (400, 500), np.float64, **uniform(0, 1))
    if np.array_equal(got["s1"], got["s2"]):
        raise Fault("seeds 21 and 22 draw the same")
    for name in ("m", "m2") if opset >= 7 else ():
        want = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        if got[name].shape != (2, 100_000) or got[name].dtype != (np.int32 if name == "m" else np.int64):
            raise Fault(f"Multinomial: {got[name].dtype}{list(got[name].shape)}")
        for row, probabilities in zip(got[name], want):
            often = np.bincount(row, minlength=4) / row.size
            if len(often) > 4 or np.any(np.abs(often - probabilities) > 4.5 * np.sqrt(probabilities * (1 - probabilities) / row.size)):
                raise Fault(f"Multinomial: {often}, expected {probabilities}")
    for name in ("r", "r2") if bernoulli else ():
        if got[name].shape != p.shape or got[name].dtype != (np.bool_ if name == "r" else np.float32) or not np.isin(got[name], (0, 1)).all():
            raise Fault(f"Bernoulli: {got[name].dtype}{list(got[name].shape)}")
        often = got[name].astype(np.float64)
        if abs(often.mean() - 0.5) > 4.5 * 0.41 / math.sqrt(p.size) or often[:, 0].any() or not often[:, -1].all():
            raise Fault(f"Bernoulli: mean {often.mean()}, at 0 {often[:, 0].mean()}, at 1 {often[:, -1].mean()}")
        thirds = np.abs(often.mean(0).reshape(20, 100).mean(1) - p[0].reshape(20, 100).mean(1))
        if thirds.max() > 4.5 * 0.5 / math.sqrt(10_000):
            raise Fault(f"Bernoulli: off by {thirds.max():.4f} where p is {p[0].reshape(20, 100).mean(1)[thirds.argmax()]:.3f}")
