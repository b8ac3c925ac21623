// The tsr dialect: fusion groups on their way to kernels.
#ifndef TESSERA_TSR_OPS
#define TESSERA_TSR_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Tsr_Dialect : Dialect {
  let name = "tsr";
  let cppNamespace = "::tessera::tsr";
  let summary = "Dispatches, layouts and their dimensions";
  let description = [{
    A `tsr.dispatch` is the unit that is placed, compiled and run: a root ONNX
    operator with the elementwise operators fused around it, or a chain of
    elementwise operators alone.
  }];
  let useDefaultAttributePrinterParser = 1;
}

def KC_Elementwise : I32EnumAttrCase<"Elementwise", 0, "elementwise">;
def KC_Contraction : I32EnumAttrCase<"Contraction", 1, "contraction">;
def KC_Convolution : I32EnumAttrCase<"Convolution", 2, "convolution">;
def KC_Depthwise : I32EnumAttrCase<"Depthwise", 3, "depthwise">;
def KC_Pooling : I32EnumAttrCase<"Pooling", 4, "pooling">;
def KC_Reduction : I32EnumAttrCase<"Reduction", 5, "reduction">;
def KC_Normalisation : I32EnumAttrCase<"Normalisation", 6, "normalisation">;
def KC_Softmax : I32EnumAttrCase<"Softmax", 7, "softmax">;
def KC_Recurrent : I32EnumAttrCase<"Recurrent", 8, "recurrent">;
def KC_Attention : I32EnumAttrCase<"Attention", 9, "attention">;
def KC_Movement : I32EnumAttrCase<"Movement", 10, "movement">;
def KC_SortSelect : I32EnumAttrCase<"SortSelect", 11, "sort_select">;
def KC_Loops : I32EnumAttrCase<"Loops", 12, "loops">;
def KC_Trees : I32EnumAttrCase<"Trees", 13, "trees">;
def Tsr_KernelClass : I32EnumAttr<"KernelClass", "family of kernel that computes a dispatch",
    [KC_Elementwise, KC_Contraction, KC_Convolution, KC_Depthwise, KC_Pooling,
     KC_Reduction, KC_Normalisation, KC_Softmax, KC_Recurrent, KC_Attention,
     KC_Movement, KC_SortSelect, KC_Loops, KC_Trees]> {
  let cppNamespace = "::tessera::tsr";
  let genSpecializedAttr = 0;
}
def Tsr_KernelClassAttr : EnumAttr<Tsr_Dialect, Tsr_KernelClass, "kernel">;

def LY_RowMajor : I32EnumAttrCase<"RowMajor", 0, "row_major">;
def LY_ChannelsLast : I32EnumAttrCase<"ChannelsLast", 1, "channels_last">;
def Tsr_Layout : I32EnumAttr<"Layout", "order of a tensor's axes in memory, outermost first",
    [LY_RowMajor, LY_ChannelsLast]> {
  let cppNamespace = "::tessera::tsr";
}

class Tsr_Op<string mnemonic, list<Trait> traits = []> : Op<Tsr_Dialect, mnemonic, traits>;

def Tsr_DispatchOp : Tsr_Op<"dispatch", [IsolatedFromAbove, SingleBlock, Pure]> {
  let summary = "a fusion group: one kernel";
  let description = [{
    The body holds `onnx` operators over block arguments that stand for the
    operands. `root` is the position in the body of the operator that gives the
    kernel its loops, or -1 for a chain of elementwise operators; operators
    before the root are its prologue, those after it its epilogue. Constants
    that the kernel embeds (scalars, axes, pads) are in the body as
    `onnx.Constant`.

    `dims` has one array an operand and then one a result: per axis the static
    size, or -(k + 1) for the k-th of the kernel's `symbols` run-time sizes;
    equal numbers are equal sizes. `layouts` likewise has one entry an operand
    and result; the ONNX shape is not changed by a layout, only the strides
    are. Both are absent until `tsr-bind-shapes` has run.
  }];
  let arguments = (ins Variadic<AnyType>:$inputs, Tsr_KernelClassAttr:$kernel_class,
      I64Attr:$root, DefaultValuedAttr<I64Attr, "0">:$symbols,
      OptionalAttr<ArrayAttr>:$dims, OptionalAttr<DenseI32ArrayAttr>:$layouts);
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let extraClassDeclaration = [{
    /// The root operator, or null for an elementwise chain.
    ::mlir::Operation *getRootOp();
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
    /// Sizes of operand `i` (or of result `i - inputs`): static >= 0, or -(symbol + 1).
    ::llvm::ArrayRef<int64_t> getDimsOf(unsigned i);
    Layout getLayoutOf(unsigned i);
  }];
  let hasVerifier = 1;
  let assemblyFormat = "$kernel_class `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs) $body";
}

def Tsr_SegmentOp : Tsr_Op<"segment", [IsolatedFromAbove, SingleBlock, Pure]> {
  let summary = "a part of the model that another device runs";
  let description = [{
    The body holds what the device computes, over block arguments that stand
    for the operands; every shape in it and at its border is static, and it has
    no control flow. Operands and results are values of the CPU's memory in row
    major order: the plan copies each operand into the device's memory once,
    launches the body, waits for it before the first reader, and copies results
    back when the CPU reads them. Tensors that pass from one segment to another
    of the same device stay in its memory. With `zero_copy` both sides share
    the operands' and results' storage and nothing is copied.

    `unit` is the device's name, `device` its number (the CPU is 0), `kind`
    what a host must drive to run the artefact; without one the body runs, as it
    does where a host plays the device. `artefact`
    is what the device's own tool chain made of the body, for the bundle: a
    string of bytes, or `dense_resource` elements of 8 bits.
  }];
  let arguments = (ins StrAttr:$unit, Variadic<AnyStaticShapeTensor>:$inputs, I64Attr:$device,
      OptionalAttr<StrAttr>:$kind, UnitAttr:$zero_copy, OptionalAttr<AnyAttr>:$artefact);
  let results = (outs Variadic<AnyStaticShapeTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let extraClassDeclaration = [{
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
    /// The bytes of `artefact`; empty without one.
    ::llvm::ArrayRef<char> getArtefactBytes();
  }];
  let hasVerifier = 1;
  let assemblyFormat = "$unit `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs) $body";
}

def Tsr_UndefinedOp : Tsr_Op<"undefined", [Pure]> {
  let summary = "a value that nothing reads";
  let description = [{
    Stands for an operand whose contents only shape a result: the sizes are
    known symbolically, so the data are never computed (the shape operand of
    Reshape, Expand, ConstantOfShape, ...). A kernel takes the sizes from its
    result instead.
  }];
  let results = (outs AnyType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tsr_YieldOp : Tsr_Op<"yield", [Pure, Terminator, ReturnLike]> {
  let summary = "ends the body of a dispatch or a segment";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}
#endif
