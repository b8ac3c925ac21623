// How operators of com.microsoft, and what of ai.onnx.ml is more than tensor
// arithmetic, are written in operators of ONNX.
//
// A recipe writes the body of a function for one node. It is used twice: during
// a first, lenient inference, where the types of the body's results are those
// of the node (Infer.cpp), and then with all types known, where the function
// takes the place of the node (Contrib.cpp).
#ifndef TESSERA_COMPILER_IMPORT_CONTRIB_H
#define TESSERA_COMPILER_IMPORT_CONTRIB_H

#include "compiler/Import/Model.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>

namespace onnx {
struct InferenceContext;
class ISchemaRegistry;
} // namespace onnx

namespace tessera::onnx_import {

/// Why a node stays as it is.
struct Unsupported {
  std::string why;
};

/// A value inside a recipe, by name; empty: absent.
using Val = std::string;

AttributeProto I(const char *name, int64_t value);
AttributeProto F(const char *name, float value);
AttributeProto S(const char *name, const std::string &value);
AttributeProto L(const char *name, const std::vector<int64_t> &values);

/// What a recipe knows of its node.
struct Call {
  std::map<std::string, AttributeProto> attributes;
  std::vector<bool> inputs, outputs;          // present
  std::vector<const TypeProto *> types;       // of inputs, null: not known
  std::vector<const TensorProto *> constants; // of inputs, null: none
  /// Types and constants as in the finished model; null in the first inference.
  Model *model = nullptr;
  NodeProto *node = nullptr;
  /// Names of the model's values, and of the tensors that recipes made by what
  /// they were made from; with `node`.
  NameSet *names = nullptr;
  std::map<std::string, std::string> *made = nullptr;
};

class Recipe {
public:
  Recipe(const Call &call, FunctionProto &function)
      : call(call), nodes(function.mutable_node()) {}

  //===--------------------------------------------------------------------===//
  // The node
  //===--------------------------------------------------------------------===//

  bool has(int i) const {
    return i < (int)call.inputs.size() && call.inputs[i];
  }
  bool wants(int i) const {
    return i < (int)call.outputs.size() && call.outputs[i];
  }
  int inputs() const { return (int)call.inputs.size(); }
  /// Input `i`, absent if the node has none.
  Val in(int i) const { return has(i) ? "i" + std::to_string(i) : Val(); }
  /// Input `i`, which the node must have.
  Val need(int i) const;
  void refuseInput(int i, const char *name) const;
  void refuseOutput(int i, const char *name) const;

  /// An attribute; no schema has checked these operators, so its kind is
  /// checked here.
  const AttributeProto *find(const std::string &name,
                             AttributeProto::AttributeType type) const;
  int64_t integer(const std::string &name, int64_t fallback) const;
  float number(const std::string &name, float fallback) const;
  std::string word(const std::string &name, const std::string &fallback) const;
  std::vector<int64_t> integers(const std::string &name) const;
  std::vector<float> numbers(const std::string &name) const;
  /// An integer attribute that must be positive, and no larger than any size.
  int64_t positive(const std::string &name) const;
  /// Refuses every value of an integer attribute but `allowed`.
  void onlyValue(const std::string &name, int64_t allowed) const;
  /// The attributes of windows and products by these names, those that are
  /// there.
  std::vector<AttributeProto>
  copy(std::initializer_list<const char *> names) const;

  /// Element type of an input (TensorProto::DataType).
  int elementType(int i) const;
  /// Rank of an input; refuses where inference does not find it.
  int rank(int i) const;
  /// Size of a dimension, if known.
  std::optional<int64_t> size(int i, int axis) const;
  /// Size of a dimension; refuses where inference does not find it.
  int64_t knownSize(int i, int axis) const;
  /// Whether two dimensions are equal for certain.
  bool sameSize(int i, int axis, int j, int otherAxis) const;
  /// Values of a constant integer input.
  std::optional<std::vector<int64_t>> constantIntegers(int i) const;

  //===--------------------------------------------------------------------===//
  // The body
  //===--------------------------------------------------------------------===//

  Val op(const char *name, const std::vector<Val> &in,
         std::vector<AttributeProto> attributes = {});
  std::vector<Val> ops(const char *name, const std::vector<Val> &in,
                       int results,
                       std::vector<AttributeProto> attributes = {});
  /// Gives result `i` of the node, if it is wanted.
  void out(int i, const Val &value);

  Val ints(const std::vector<int64_t> &values);
  Val intScalar(int64_t value);
  Val floatList(const std::vector<float> &values);
  Val floatScalar(float value);
  Val stringList(const std::vector<std::string> &values);
  /// A scalar of the element type of `like`.
  Val scalarLike(float value, const Val &like) {
    return op("CastLike", {floatScalar(value), like});
  }
  Val add(const Val &x, const Val &y) { return op("Add", {x, y}); }
  Val addIf(const Val &x, const Val &y) { return y.empty() ? x : add(x, y); }
  Val sub(const Val &x, const Val &y) { return op("Sub", {x, y}); }
  Val mul(const Val &x, const Val &y) { return op("Mul", {x, y}); }
  Val div(const Val &x, const Val &y) { return op("Div", {x, y}); }
  Val matmul(const Val &x, const Val &y) { return op("MatMul", {x, y}); }
  Val where(const Val &c, const Val &x, const Val &y) {
    return op("Where", {c, x, y});
  }
  Val cast(const Val &x, int type) {
    return op("Cast", {x}, {I("to", type), I("saturate", 1)});
  }
  Val castLike(const Val &x, const Val &like) {
    return op("CastLike", {x, like}, {I("saturate", 1)});
  }
  Val transpose(const Val &x, const std::vector<int64_t> &perm);
  Val reshape(const Val &x, const std::vector<int64_t> &shape) {
    return op("Reshape", {x, ints(shape)}, {I("allowzero", 0)});
  }
  Val reshapeTo(const Val &x, const Val &shape) {
    return op("Reshape", {x, shape}, {I("allowzero", 0)});
  }
  Val unsqueeze(const Val &x, const std::vector<int64_t> &axes) {
    return op("Unsqueeze", {x, ints(axes)});
  }
  Val squeeze(const Val &x, const std::vector<int64_t> &axes) {
    return op("Squeeze", {x, ints(axes)});
  }
  Val concat(const std::vector<Val> &parts, int64_t axis) {
    return op("Concat", parts, {I("axis", axis)});
  }
  /// The elements [from, to) of an axis; the bounds are lists of one integer.
  Val slice(const Val &x, int64_t axis, const Val &from, const Val &to) {
    return op("Slice", {x, from, to, ints({axis}), ints({1})});
  }
  Val slice(const Val &x, int64_t axis, int64_t from, int64_t to) {
    return slice(x, axis, ints({from}), ints({to}));
  }
  /// The dimensions [from, to) of a shape, as a list.
  Val dims(const Val &x, int64_t from, int64_t to) {
    return op("Shape", {x}, {I("start", from), I("end", to)});
  }
  Val dim(const Val &x, int64_t axis) { return dims(x, axis, axis + 1); }
  /// 0, 1, ... up to a list of one integer.
  Val count(const Val &length);
  /// x by a permutation that swaps its last two axes, whatever its rank.
  Val swapLast(const Val &x) {
    return op("Einsum", {x}, {S("equation", "...ij->...ji")});
  }
  Val reduce(const char *name, const Val &x, const std::vector<int64_t> &axes,
             bool keep) {
    return op(name, {x, ints(axes)},
              {I("keepdims", keep), I("noop_with_empty_axes", 0)});
  }

  /// A loop of at most `trips` iterations over `state`; the body gives whether
  /// there is one more, then the next state.
  std::vector<Val>
  loop(const Val &trips, const std::vector<Val> &state,
       llvm::function_ref<std::vector<Val>(const std::vector<Val> &)> body);

  const Call &call;

private:
  NodeList *nodes; // of the function, or of the body of a loop
  int values = 0;
};

/// One operator: what writes it, and all that the recipe knows of.
struct ContribOperator {
  const char *name; // with its domain, unless it is com.microsoft
  void (*write)(Recipe &);
  int inputs, outputs; // the most that it can have
  std::vector<const char *> attributes;
};

/// The operator of a node, if there is a recipe for it.
const ContribOperator *findContrib(const NodeProto &node);
llvm::ArrayRef<ContribOperator> fusedOperators();     // ContribFused.cpp
llvm::ArrayRef<ContribOperator> quantisedOperators(); // ContribQuantised.cpp
llvm::ArrayRef<ContribOperator> packedOperators();    // ContribPacked.cpp
llvm::ArrayRef<ContribOperator> attentionOperators(); // ContribAttention.cpp
llvm::ArrayRef<ContribOperator>
cachedAttentionOperators();                        // ContribGroupQuery.cpp
llvm::ArrayRef<ContribOperator> tensorOperators(); // ContribTensor.cpp
llvm::ArrayRef<ContribOperator> supportVectorOperators(); // SupportVectors.cpp

/// Types of the results of a node in the first inference; nothing where there
/// is no recipe for it.
void inferContrib(const std::string &op, ::onnx::InferenceContext &context,
                  const ::onnx::ISchemaRegistry *registry);

//===----------------------------------------------------------------------===//
// Shared between families
//===----------------------------------------------------------------------===//

/// An activation by the name that fused operators give it.
Val activate(Recipe &r, const Val &x, const std::string &name,
             llvm::ArrayRef<float> parameters);
/// x * y of 8-bit integers, exact, in int32.
inline Val matmulInteger(Recipe &r, const Val &x, const Val &y,
                         const Val &xZero, const Val &yZero) {
  return r.op("MatMulInteger", {x, y, xZero, yZero});
}
/// [B, S, N * H] as [B, N, S, H].
Val splitHeads(Recipe &r, const Val &x, int64_t heads);
/// [B, N, S, H] as [B, S, N * H].
Val joinHeads(Recipe &r, const Val &x);

} // namespace tessera::onnx_import

#endif
