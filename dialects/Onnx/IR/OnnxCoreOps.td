// Operators of the dialect that have no ONNX schema.
#ifndef TESSERA_ONNX_CORE_OPS_TD
#define TESSERA_ONNX_CORE_OPS_TD

include "dialects/Onnx/IR/OnnxDialect.td"

def Onnx_CustomOp : Onnx_Op<"Custom", 1, "*", "*", "inputs"> {
  let summary = "an operator of a domain without a schema";
  let description = [{
    An absent input is an operand of type `none` (onnx.NoValue): the meaning of
    positions is not known here.
  }];
  let arguments = (ins StrAttr:$domain, StrAttr:$op_type,
                       DictionaryAttr:$attrs, Variadic<AnyType>:$inputs);
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region VariadicRegion<AnyRegion>:$bodies);
}

def Onnx_NoValueOp : Onnx_Op<"NoValue", 1, "", "1", "", [Pure]> {
  let summary = "an absent input of onnx.Custom; nothing else uses it";
  let results = (outs NoneType:$result);
}

def Onnx_YieldOp : Onnx_Op<"Yield", 1, "*", "", "values",
                           [Pure, Terminator]> {
  let summary = "ends a body of If, Loop, Scan or SequenceMap";
  let arguments = (ins Variadic<AnyType>:$values);
}

def Onnx_WeightOp : Onnx_Op<"Weight", 1, "", "1", "", [Pure, ConstantLike]> {
  let summary = "a constant tensor: initialiser or Constant node";
  let description = [{
    The payload of a dense_resource may alias mapped memory. It has ONNX's
    raw_data layout: little endian, bool as one byte, narrower types packed as one
    bit stream, low bits first. Read it through OnnxUtils.h.
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::ElementsAttr":$value), [{
    build($_builder, $_state, value.getType(), value);
  }]>];
  let hasFolder = 1;
  let hasVerifier = 1;
}

#endif
