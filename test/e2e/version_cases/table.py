"""The table of cases, and how a module adds to it.

A case is a node (or a small graph as ONNX text) that holds for the versions `lo` to `hi` of an operator. The suite runs it at each of these
versions, at the operator set that brought the version and at the last before the next one.
"""
import collections

import numpy as np

Case = collections.namedtuple("Case", "name domain op lo hi inputs attributes outputs text want limit ort refused last")
CASES = []
R = np.random.default_rng(11)


class given(tuple):
    """An array that is an input of the graph; a bare array is an initialiser."""

    def __new__(cls, value):
        return super().__new__(cls, (np.asarray(value),))


def add(name, op, lo, hi, inputs, attributes, outputs, text, want, limit, ort, refused, domain, last):
    CASES.append(Case(name, domain, op, lo, hi, inputs, attributes, outputs, text, want, limit, ort, refused, last))


def case(op, *inputs, lo=1, hi=99, name="", outputs=1, want=None, limit=1e-5, ort=True, refused=None, domain="", last=99, **attributes):
    """One node. `want`: a function of the inputs' arrays that gives the output, or a tuple of them, as the text of those versions says; without one
    the oracle is onnxruntime, or else onnx.reference. `ort` is False where onnxruntime does not follow the text. `refused`: a word that the
    refusal must hold beside the operator. `last`: no operator set above that one."""
    add(name, op, lo, hi, inputs, attributes, outputs, None, want, limit, ort, refused, domain, last)


def graph(op, text, *inputs, lo=1, hi=99, name="", want=None, limit=1e-5, ort=True, refused=None, domain="", last=99):
    """ONNX text of a graph whose inputs are `inputs`, in order."""
    add(name, op, lo, hi, inputs, {}, 0, text, want, limit, ort, refused, domain, last)


def normal(*shape, scale=1.0, dtype=np.float32):
    return (R.standard_normal(shape) * scale).astype(dtype)


def uniform(low, high, *shape, dtype=np.float32):
    return R.uniform(low, high, shape).astype(dtype)


def ints(low, high, *shape, dtype=np.int64):
    return R.integers(low, high, shape).astype(dtype)


def mask(*shape):
    return R.integers(0, 2, shape).astype(np.bool_)


def i64(*values):
    return np.array(values, np.int64)


def f32(*values):
    return np.array(values, np.float32)
