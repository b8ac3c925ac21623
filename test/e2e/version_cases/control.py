"""Control flow, sequences, optionals: a scan over a batch, loops that carry sequences, tests of what may be absent."""
import numpy as np

from .table import given, graph, i64, normal

X = normal(3, 4)
T, F = np.array(True), np.array(False)
TEXT = "g (bool c, float[3,4] x) => (float[3,4] y) { y = If (c) <then_branch = t () => (float[3,4] a) { a = Neg(x) }, else_branch = e () => (float[3,4] b) { b = Exp(x) }> }"
graph("If", TEXT, given(T), given(X), want=lambda c, x: -x)
graph("If", TEXT, given(F), given(X), name="else", want=lambda c, x: np.exp(x))
graph("If", "g (bool c, float[3,4] x) => (float[3,4] y) { s = If (c) <then_branch = t () => (seq(float[3,4]) a) { a = SequenceConstruct(x) }, else_branch = e () => (seq(float[3,4]) b) { n = Neg(x) b = SequenceConstruct(n) }> "
      "i = Constant<value = int64 {0}>() y = SequenceAt(s, i) }", given(F), given(X), lo=13, name="sequence", want=lambda c, x: -x)
# Trip count, condition, or both; a value per turn beside what is carried.
BODY = "<body = b (int64 i, bool k, float[3,4] v) => (bool more, float[3,4] w, float[3,4] each) { w = Add(v, v) each = Neg(w) more = Identity(k) }>"
graph("Loop", "g (int64 n, bool c, float[3,4] x) => (float[3,4] y, float[k,3,4] z) { y, z = Loop (n, c, x) " + BODY + " }", given(np.array(3)), given(T), given(X),
      want=lambda n, c, x: (8 * x, -np.stack([2 * x, 4 * x, 8 * x])))
graph("Loop", "g (int64 n, float[3,4] x) => (float[3,4] y, float[k,3,4] z) { y, z = Loop (n, , x) " + BODY + " }", given(np.array(2)), given(X), name="count",
      want=lambda n, x: (4 * x, -np.stack([2 * x, 4 * x])))
graph("Loop", "g (bool c, float[3,4] x) => (float[3,4] y, float[k,3,4] z) { y, z = Loop (, c, x) <body = b (int64 i, bool k, float[3,4] v) => (bool more, float[3,4] w, float[3,4] each) { w = Add(v, v) each = Neg(w) "
      "two = Constant<value = int64 {2}>() more = Less(i, two) }> }", given(T), given(X), lo=11, name="condition", want=lambda c, x: (8 * x, -np.stack([2 * x, 4 * x, 8 * x])))
graph("Loop", "g (int64 n, bool c, float[3,4] x) => (float[3,4] y) { s = SequenceEmpty<dtype = 1>() t = Loop (n, c, s) <body = b (int64 i, bool k, seq(float[3,4]) v) => (bool more, seq(float[3,4]) w) "
      "{ more = Identity(k) w = SequenceInsert(v, x) }> i = Constant<value = int64 {1}>() y = SequenceAt(t, i) }", given(np.array(2)), given(T), given(X), lo=13, name="sequence", want=lambda n, c, x: x)
# Version 8 scanned every row of a batch.
SUM = "{ s = Add(a, e) o = Identity(s) }"
graph("Scan", "g (float[2,3] a0, float[2,5,3] x) => (float[2,3] f, float[2,5,3] ys) { f, ys = Scan (, a0, x) <num_scan_inputs = 1, body = b (float[3] a, float[3] e) => (float[3] s, float[3] o) " + SUM + "> }",
      given(normal(2, 3)), given(normal(2, 5, 3)), hi=8, want=lambda a, x: (a + x.sum(1), a[:, None] + np.cumsum(x, 1)))
graph("Scan", "g (float[2,3] a0, float[2,5,3] x) => (float[2,3] f, float[2,5,3] ys) { f, ys = Scan (, a0, x) <num_scan_inputs = 1, directions = [1], body = b (float[3] a, float[3] e) => (float[3] s, float[3] o) " + SUM + "> }",
      given(normal(2, 3)), given(normal(2, 5, 3)), hi=8, name="backward", want=lambda a, x: (a + x.sum(1), a[:, None] + np.cumsum(x[:, ::-1], 1)))
graph("Scan", "g (int64[2] l, float[2,3] a0, float[2,5,3] x) => (float[2,3] f, float[2,5,3] ys) { f, ys = Scan (l, a0, x) <num_scan_inputs = 1, body = b (float[3] a, float[3] e) => (float[3] s, float[3] o) " + SUM + "> }",
      given(i64(5, 2)), given(normal(2, 3)), given(normal(2, 5, 3)), hi=8, name="lengths", refused="sequence_lens")
graph("Scan", "g (float[3] a0, float[5,3] x) => (float[3] f, float[5,3] ys) { f, ys = Scan (a0, x) <num_scan_inputs = 1, body = b (float[3] a, float[3] e) => (float[3] s, float[3] o) " + SUM + "> }",
      given(normal(3)), given(normal(5, 3)), lo=9, want=lambda a, x: (a + x.sum(0), a + np.cumsum(x, 0)))
graph("Scan", "g (float[3] a0, float[3,5] x) => (float[3] f, float[3,5] ys) { f, ys = Scan (a0, x) <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1], scan_input_directions = [1], scan_output_directions = [1], "
      "body = b (float[3] a, float[3] e) => (float[3] s, float[3] o) " + SUM + "> }", given(normal(3)), given(normal(3, 5)), lo=9, name="axes",
      want=lambda a, x: (a + x.sum(1), (a[:, None] + np.cumsum(x[:, ::-1], 1))[:, ::-1]))

# Sequences.
ONE = "i = Constant<value = int64 {1}>() "
A, B = normal(2, 3), normal(2, 3)
HEAD = "g (float[2,3] a, float[2,3] b) => (%s y) { "
graph("SequenceConstruct", HEAD % "seq(float[2,3])" + "y = SequenceConstruct(a, b) }", given(A), given(B), want=lambda a, b: [a, b])
graph("SequenceAt", HEAD % "float[2,3]" + ONE + "s = SequenceConstruct(a, b) y = SequenceAt(s, i) }", given(A), given(B), want=lambda a, b: b)
graph("SequenceLength", HEAD % "int64" + "s = SequenceConstruct(a, b) y = SequenceLength(s) }", given(A), given(B), want=lambda a, b: np.array(2))
graph("SequenceErase", HEAD % "seq(float[2,3])" + "s = SequenceConstruct(a, b) y = SequenceErase(s) }", given(A), given(B), want=lambda a, b: [a])
graph("SequenceInsert", HEAD % "seq(float[2,3])" + ONE + "s = SequenceConstruct(a, a) y = SequenceInsert(s, b, i) }", given(A), given(B), want=lambda a, b: [a, b, a])
graph("SequenceEmpty", HEAD % "seq(float[2,3])" + "s = SequenceEmpty<dtype = 1>() t = SequenceInsert(s, a) y = SequenceInsert(t, b) }", given(A), given(B), want=lambda a, b: [a, b])
graph("ConcatFromSequence", HEAD % "float[4,3]" + "s = SequenceConstruct(a, b) y = ConcatFromSequence<axis = 0>(s) }", given(A), given(B), want=lambda a, b: np.concatenate([a, b]))
graph("ConcatFromSequence", HEAD % "float[2,2,3]" + "s = SequenceConstruct(a, b) y = ConcatFromSequence<axis = 0, new_axis = 1>(s) }", given(A), given(B), name="new_axis", want=lambda a, b: np.stack([a, b]))
graph("SplitToSequence", "g (float[5,3] x) => (seq(float[k,3]) y) { n = Constant<value = int64 {2}>() y = SplitToSequence<axis = 0>(x, n) }", given(normal(5, 3)), want=lambda x: [x[:2], x[2:4], x[4:]])
graph("SplitToSequence", "g (float[5,3] x) => (seq(float[5]) y) { y = SplitToSequence<axis = 1, keepdims = 0>(x) }", given(normal(5, 3)), name="drop", want=lambda x: list(x.T))
graph("SequenceMap", HEAD % "float[2,3]" + ONE + "s = SequenceConstruct(a, b) t = SequenceMap (s) <body = m (float[2,3] u) => (float[2,3] v) { v = Neg(u) }> y = SequenceAt(t, i) }", given(A), given(B), want=lambda a, b: -b)

# Optionals.
graph("Optional", "g (float[2,3] a) => (float[2,3] y) { o = Optional(a) y = OptionalGetElement(o) }", given(A), want=lambda a: a)
graph("OptionalGetElement", "g (float[2,3] a) => (float[2,3] y) { s = SequenceConstruct(a, a) o = Optional(s) t = OptionalGetElement(o) " + ONE + "y = SequenceAt(t, i) }", given(A), name="sequence", want=lambda a: a)
graph("OptionalGetElement", "g (float[2,3] a) => (float[2,3] y) { y = OptionalGetElement(a) }", given(A), lo=18, name="tensor", want=lambda a: a)
graph("OptionalHasElement", "g (float[2,3] a) => (bool y) { o = Optional(a) y = OptionalHasElement(o) }", given(A), want=lambda a: T)
graph("OptionalHasElement", "g (float[2,3] a) => (bool y, bool z) { y = OptionalHasElement(a) z = OptionalHasElement() }", given(A), lo=18, name="absent", want=lambda a: (T, F))
