#ifndef TESSERA_PASSES_CANONICALISE_PASSES_TD
#define TESSERA_PASSES_CANONICALISE_PASSES_TD

include "mlir/Pass/PassBase.td"

class OnnxPass<string name> : Pass<"onnx-" # name, "::mlir::func::FuncOp">;

def FoldConstants : OnnxPass<"fold-constants"> {
  let summary = "Evaluate operators whose operands are all constant";
  let description = [{
    Tolerance class: exact. Integers, bools and shapes are computed exactly;
    floating-point +, -, *, / and square root are correctly rounded, as at run
    time; transcendental functions are folded up to f32 only, where the value
    computed in double decides the rounding. An operator whose indices are out of
    range, or whose result depends on an order of summation, is left to the
    runtime. `Shape` and `Size` of static shapes fold; an `If` with a constant
    condition is replaced by its branch.

    A result is kept when it is at most `budget` bytes, or at most as large as the
    constants that die with the operator. DequantizeLinear of a constant is folded
    whatever its size if `dequantize` is set (then the weights are floats).
  }];
  let options = [
    Option<"budget", "budget", "int64_t", "64 * 1024", "bytes a folded constant may add">,
    Option<"dequantize", "dequantize", "bool", "true", "fold DequantizeLinear of weights">
  ];
}

def RemoveNoOps : OnnxPass<"remove-no-ops"> {
  let summary = "Remove operators that return their operand, compose views and casts";
  let description = [{
    Tolerance class: exact, but for x + 0, which turns -0 into +0; it is removed
    unless `strict` is set. Nothing is removed where broadcasting against the
    neutral operand could change the shape.

    Identity, Dropout in inference, Cast to the same type, identity and chained
    Transpose, chained Reshape, Concat and Split of one, whole Slice, Expand to the
    same shape, Pad by nothing, Clip without bounds, Mul and Div by 1, Add and Sub
    of 0, Where of a uniform condition, QuantizeLinear of the DequantizeLinear with
    the same parameters. CastLike becomes Cast.
  }];
  let options = [Option<"strict", "strict", "bool", "false", "keep every bit">];
}

def SimplifyArithmetic : OnnxPass<"simplify-arithmetic"> {
  let summary = "One cheap spelling for powers, quotients and constant operands";
  let description = [{
    Tolerance class: exact for Pow(x, 2) to Mul(x, x), division by powers of two to
    multiplication, Sub of a constant to Add, constants to the right of Add and Mul, Gather
    before the DequantizeLinear of a constant table;
    approximation (one rounding) for Pow(x, 0.5) to Sqrt and Pow(x, 3) to products, not
    with `strict`.
  }];
  let options = [Option<"strict", "strict", "bool", "false", "keep every bit">];
}

def FoldScaling : OnnxPass<"fold-scaling"> {
  let summary = "Fold BatchNormalization and per-channel Mul and Add into the weights before them";
  let description = [{
    Tolerance class: reassociation. BatchNormalization in inference becomes Mul and Add
    with per-channel factors (also in `strict`, where nothing else happens here). Mul
    and Add by per-channel constants are folded into the Conv, ConvTranspose, Gemm or
    MatMul that produces their operand if its weights are constant floats used nowhere
    else and its result has no other use.
  }];
  let options = [Option<"strict", "strict", "bool", "false", "keep every bit">];
}

def FoldPadding : OnnxPass<"fold-padding"> {
  let summary = "Fold Pad into Conv, AveragePool and MaxPool where that is exact";
  let description = [{
    Tolerance class: exact. Conv: constant 0 on spatial axes. AveragePool: the same, if
    the pool itself pads nothing and does not round up. MaxPool: the value is minus
    infinity, or 0 where the operand cannot be negative.
  }];
}

def RecogniseComposites : OnnxPass<"recognise-composites"> {
  let summary = "LayerNormalization, RMSNormalization, Softmax, Gelu, Swish, HardSwish from their parts";
  let description = [{
    Tolerance class: approximation (the composite is computed with fewer roundings, or in
    another order); does nothing with `strict`. Every inner value must have no other use.
  }];
  let options = [Option<"strict", "strict", "bool", "false", "keep every bit">];
}

def DecomposeOperators : OnnxPass<"decompose-operators"> {
  let summary = "Operators that are compositions of simpler ones, at no cost";
  let description = [{
    Tolerance class: exact (the definition of the operator, in its order). Variadic Sum,
    Mean, Max and Min become binary chains; Einsum becomes Transpose, Mul, ReduceSum and
    MatMul with diagonals, ellipsis and broadcasting; Scan becomes Loop. QLinearMatMul and
    QLinearConv become their integer operators and one rescaling; FlexAttention with
    modifier bodies, the optimisers, TfIdfVectorizer and the arithmetic operators of
    ai.onnx.ml become tensor arithmetic; the random operators, Dropout in training among
    them, become a hash of the element's number and the seed. An operator with an attribute that its rewrite
    does not serve stays, and the audit names it.
  }];
}

def FoldShapes : OnnxPass<"fold-shapes"> {
  let summary = "Constants and static dimensions that the symbolic shape analysis finds";
  let description = [{
    Tolerance class: exact. Integer tensors whose contents are known for every input
    become constants, result types are refined. Where the analysis fails nothing is
    changed.
  }];
}

def SignQuantisers : OnnxPass<"sign-quantisers"> {
  let summary = "QuantizeLinear to uint8 and uint16 as one to int8 and int16";
  let description = [{
    Tolerance class: exact. Where all that reads the integers is DequantizeLinear, they
    and the zero points become less by half the range. Units that compute in integers
    have signed ones only; nothing is gained elsewhere.
  }];
}

def ExpandFunctions : OnnxPass<"expand-functions"> {
  let summary = "Operators that no kernel serves as the bodies that ONNX defines them by";
  let description = [{
    Tolerance class: exact (the body is the definition). The set of operators is chosen
    by one predicate, that no kernel matches; `operators` names others instead. An
    operator whose body cannot be built or imported stays, and the audit names it.
  }];
  let options = [
    ListOption<"operators", "operators", "std::string", "expand these, kernel or not">,
    Option<"verbose", "verbose", "bool", "false", "say why an expansion failed">
  ];
}

def LowerAggregates : OnnxPass<"lower-aggregates"> {
  let summary = "Sequences, optionals and strings as plain tensors";
  let description = [{
    Tolerance class: exact. A sequence becomes its elements in a row and the matrix of
    their extents, an optional a bool and its value, a tensor of strings a tensor of
    code points with one axis more (passes/Canonicalise/Aggregates.h has the table);
    SequenceMap becomes Loop. At the function's border an argument or result becomes
    as many as it has parts, with the attribute `onnx.kind`. A function with an
    operator that has no such form stays as it is; a warning names the operator.
  }];
}

def LowerTrees : OnnxPass<"lower-trees"> {
  let summary = "Tree ensembles as operators over constant tables; ZipMap as its matrix";
  let description = [{
    Tolerance class: exact. The attributes of TreeEnsemble, TreeEnsembleClassifier and
    TreeEnsembleRegressor become operands of `tessera.TreeEnsemble`, checked once, so that
    one kernel serves every ensemble. String labels, single-class classifiers and broken
    trees stay, and the audit names them. A ZipMap whose result leaves the function is
    dropped: a run hands out the matrix of scores, a column a class.
  }];
}

#endif
