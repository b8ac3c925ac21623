// The onnx dialect: types, the interface all operators have, and the base class
// of the operators. The operators themselves are generated from the ONNX schema
// registry (Gen/OnnxOdsGen.cpp) into the build tree; OnnxCoreOps.td holds the
// few that ONNX has no schema for.
#ifndef TESSERA_ONNX_DIALECT_TD
#define TESSERA_ONNX_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/BuiltinTypes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Onnx_Dialect : Dialect {
  let name = "onnx";
  let cppNamespace = "::tessera::onnx";
  let summary = "ONNX operators of the newest operator set";
  let useDefaultTypePrinterParser = 1;
  let hasConstantMaterializer = 1;
}

class Onnx_Type<string n, string m> : TypeDef<Onnx_Dialect, n> {
  let mnemonic = m;
}
def Onnx_String : Onnx_Type<"String", "str"> {
  let summary = "element type of ONNX string tensors";
}
def Onnx_Seq : Onnx_Type<"Seq", "seq"> {
  let parameters = (ins "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $elementType `>`";
}
def Onnx_Opt : Onnx_Type<"Opt", "opt"> {
  let parameters = (ins "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $elementType `>`";
}
def Onnx_Map : Onnx_Type<"Map", "map"> {
  let parameters = (ins "::mlir::Type":$keyType, "::mlir::Type":$valueType);
  let assemblyFormat = "`<` $keyType `,` $valueType `>`";
}
def Onnx_AnyValue : AnyTypeOf<[AnyTensor, Onnx_Seq, Onnx_Opt, Onnx_Map]>;

def OnnxOpInterface : OpInterface<"OnnxOp"> {
  let cppNamespace = "::tessera::onnx";
  let description = [{
    What the schema says about an operator's values, without its C++ class. One
    character a formal parameter: `1` required, `?` optional, `*` variadic.
  }];
  let methods = [
    StaticInterfaceMethod<"kinds of the inputs", "::llvm::StringRef",
      "getInputKinds", (ins), [{ return ConcreteOp::kInputKinds; }]>,
    StaticInterfaceMethod<"kinds of the outputs", "::llvm::StringRef",
      "getOutputKinds", (ins), [{ return ConcreteOp::kOutputKinds; }]>,
    StaticInterfaceMethod<"schema names of the inputs, comma separated",
      "::llvm::StringRef", "getInputNames", (ins),
      [{ return ConcreteOp::kInputNames; }]>,
    StaticInterfaceMethod<"operator set that introduced this version", "int",
      "getSinceVersion", (ins), [{ return ConcreteOp::kSinceVersion; }]>
  ];
}

// Textual form, the same for all:
//   %y = onnx.Clip(%x, none, %max) {attrs} : (types) -> type
// `none` stands for an absent optional operand; trailing ones are left out.
class Onnx_Op<string name, int since, string inputs, string outputs,
              string inputNames, list<Trait> traits = []>
    : Op<Onnx_Dialect, name, !listconcat([OnnxOpInterface], traits)> {
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration =
      "static constexpr int kSinceVersion = " # since # ";\n" #
      "static constexpr ::llvm::StringLiteral kInputKinds{\"" # inputs # "\"};\n" #
      "static constexpr ::llvm::StringLiteral kOutputKinds{\"" # outputs # "\"};\n" #
      "static constexpr ::llvm::StringLiteral kInputNames{\"" # inputNames # "\"};\n";
  let extraClassDefinition = [{
    ::mlir::ParseResult $cppClass::parse(::mlir::OpAsmParser &parser,
                                         ::mlir::OperationState &state) {
      return ::tessera::onnx::parseOp(parser, state, kInputKinds, kOutputKinds);
    }
    void $cppClass::print(::mlir::OpAsmPrinter &printer) {
      ::tessera::onnx::printOp(printer, *this, kInputKinds, kOutputKinds);
    }
  }];
}

#endif
