// Types of all values, by ONNX's strict inference with data propagation. What
// the model says about values in between is not taken on trust: only results of
// operators that we know nothing of keep their declared type.
//
// ONNX gives the values that a Loop carries no shape, since it may change from
// one iteration to the next. Mostly it does not. We assume the shape of the
// initial value, infer, and widen what the body contradicts, until it holds.
#include "compiler/Import/Contrib.h"
#include "compiler/Import/Preconditions.h"
#include "onnx/shape_inference/implementation.h"

#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace tessera::onnx_import {

namespace {

using ::onnx::TensorShapeProto;
constexpr int kMaxRounds = 8;

std::string shapeText(const TypeProto &type) {
  if (!type.tensor_type().has_shape())
    return "any shape";
  std::string text;
  for (auto &dim : type.tensor_type().shape().dim())
    text += (text.empty() ? "" : ",") + (dim.has_dim_value() ? std::to_string(dim.dim_value())
                                         : !dim.dim_param().empty() ? dim.dim_param()
                                                                    : "?");
  return "[" + text + "]";
}

bool contradict(const TypeProto &a, const TypeProto &b) {
  if (!a.tensor_type().has_shape() || !b.tensor_type().has_shape())
    return false;
  auto &x = a.tensor_type().shape(), &y = b.tensor_type().shape();
  if (x.dim_size() != y.dim_size())
    return true;
  for (int i = 0; i < x.dim_size(); ++i)
    if (x.dim(i).has_dim_value() && y.dim(i).has_dim_value() &&
        x.dim(i).dim_value() != y.dim(i).dim_value())
      return true;
  return false;
}

// "(op_type:Add, node name: a): [ShapeInferenceError] Incompatible dimensions"
[[noreturn]] void rethrow(llvm::StringRef text) {
  text.consume_front("[ShapeInferenceError] ");
  text.consume_front("Inference error(s): ");
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  std::vector<std::string> messages;
  std::string first;
  for (llvm::StringRef line : lines) {
    if (!line.consume_front("(op_type:")) {
      messages.push_back(line.str());
      continue;
    }
    auto [op, rest] = line.split(", node name: ");
    auto [name, message] = rest.split("): ");
    for (llvm::StringRef kind : {"[ShapeInferenceError] ", "[TypeInferenceError] "})
      message.consume_front(kind);
    messages.push_back("node '" + name.str() + "' (" + op.str() + "): " + message.str());
    if (first.empty())
      first = name.str();
  }
  ImportError result(messages.empty() ? "shape inference failed" : messages[0], first);
  for (size_t i = 1; i < messages.size() && i < 6; ++i)
    result.notes.push_back(messages[i]);
  throw result;
}

// Gives operators of unknown domains a schema that says nothing, for without
// one ONNX goes on leniently after such an operator. Those of com.microsoft have
// the types that their recipes give.
class Registry : public CheckedSchemas {
public:
  const ::onnx::OpSchema *GetSchema(const std::string &op, const int maxInclusiveVersion,
                                    const std::string &domain) const override {
    if (newestVersion(domain))
      return CheckedSchemas::GetSchema(op, maxInclusiveVersion, domain);
    auto [it, fresh] = schemas.try_emplace({domain, op});
    if (fresh) {
      ::onnx::OpSchema &schema = it->second;
      using S = ::onnx::OpSchema;
      schema.SetName(op).SetDomain(domain).SinceVersion(1);
      schema.Input(0, "inputs", "", "T", S::Variadic, false, 0);
      schema.Output(0, "outputs", "", "U", S::Variadic, false, 0);
      std::vector<std::string> all;
      for (auto *list : {&S::all_tensor_types_ir14(), &S::all_tensor_sequence_types_ir14(),
                         &S::all_optional_types_ir13()})
        all.insert(all.end(), list->begin(), list->end());
      schema.TypeConstraint("T", all, "").TypeConstraint("U", all, "");
      schema.AllowUncheckedAttributes();
      bool contrib = domain == "com.microsoft";
      schema.TypeAndShapeInferenceFunction([op, contrib, this](::onnx::InferenceContext &context) {
        if (contrib)
          inferContrib(op, context, this);
      });
      schema.Finalize();
    }
    return &it->second;
  }

private:
  mutable std::map<std::pair<std::string, std::string>, ::onnx::OpSchema> schemas;
};

class Inference {
public:
  explicit Inference(Model &model) : model(model) {}

  void run() {
    GraphProto &graph = *model.proto.mutable_graph();
    std::vector<TypeProto> declared;
    for (ValueInfoProto &v : *graph.mutable_output())
      declared.push_back(v.type());
    forEachGraph(graph, [&](GraphProto &g) { prepare(g); });
    for (auto &[node, output] : guessed)
      model.warnings.push_back(node + ": nothing is known of this operator; result '" + output +
                               "' is taken for float of unknown shape");
    if (hasLoops)
      inferLoops();
    else
      infer(model.proto);
    inferDetachedBodies();
    for (auto [i, v] : llvm::enumerate(model.proto.graph().output())) {
      checkElementType(v, declared[i]);
      // Writers get shapes wrong, and nothing depends on them.
      if (contradict(v.type(), declared[i]))
        model.warnings.push_back("output '" + v.name() + "': the model declares " +
                                 shapeText(declared[i]) + ", its operators give " +
                                 shapeText(v.type()));
    }
  }

private:
  void checkElementType(const ValueInfoProto &v, const TypeProto &declared) {
    if (v.type().has_tensor_type() && declared.has_tensor_type() &&
        v.type().tensor_type().elem_type() != declared.tensor_type().elem_type())
      throw ImportError("output '" + v.name() + "': the declared element type is not that of its node");
  }

  void prepare(GraphProto &g) {
    std::unordered_map<std::string, const ValueInfoProto *> declared;
    std::unordered_set<std::string> outputs, computed;
    for (auto &v : g.value_info())
      if (v.has_type())
        declared.emplace(v.name(), &v);
    for (auto &v : g.output())
      if (v.has_type())
        outputs.insert(v.name());
    google::protobuf::RepeatedPtrField<ValueInfoProto> kept;
    for (NodeProto &node : *g.mutable_node()) {
      if (node.name().empty()) // errors of inference have nothing else to name it by
        node.set_name(locationName(node));
      if (newestVersion(node.domain())) {
        computed.insert(node.output().begin(), node.output().end());
        if (node.domain().empty() && node.op_type() == "Loop")
          prepareLoop(node);
        if (node.domain().empty() && node.op_type() == "STFT")
          sayOneSided(node);
        continue;
      }
      for (auto &output : node.output()) {
        if (output.empty() || outputs.contains(output))
          continue;
        if (auto it = declared.find(output); it != declared.end()) {
          *kept.Add() = *it->second;
          continue;
        }
        guessed.emplace_back(describe(node), output);
        ValueInfoProto &v = *kept.Add();
        v.set_name(output);
        v.mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
      }
    }
    g.mutable_value_info()->Swap(&kept);
    for (ValueInfoProto &v : *g.mutable_output())
      if (v.type().has_tensor_type() && computed.contains(v.name()))
        v.mutable_type()->mutable_tensor_type()->clear_shape();
  }

  static GraphProto *bodyOf(NodeProto &node) {
    for (AttributeProto &a : *node.mutable_attribute())
      if (a.has_g() && a.name() == "body")
        return a.mutable_g();
    return nullptr;
  }

  // ONNX's inference takes 0 where the schema's default is 1.
  static void sayOneSided(NodeProto &node) {
    for (const AttributeProto &a : node.attribute())
      if (a.name() == "onesided")
        return;
    AttributeProto &a = *node.add_attribute();
    a.set_name("onesided");
    a.set_type(AttributeProto::INT);
    a.set_i(1);
  }

  // Iteration number and condition are scalars where nobody says otherwise.
  void prepareLoop(NodeProto &node) {
    hasLoops = true;
    GraphProto *body = bodyOf(node);
    if (!body || body->input_size() < 2)
      fail(node, "the body of a loop has an iteration number and a condition as inputs");
    auto scalar = [](ValueInfoProto &v, int type) {
      auto &tensor = *v.mutable_type()->mutable_tensor_type();
      if (!tensor.has_elem_type())
        tensor.set_elem_type(type);
      if (!tensor.has_shape())
        tensor.mutable_shape();
    };
    scalar(*body->mutable_input(0), TensorProto::INT64);
    if (node.input_size() < 2 || node.input(1).empty())
      scalar(*body->mutable_input(1), TensorProto::BOOL);
    while (node.input_size() < 2)
      node.add_input("");
  }

  void infer(ModelProto &proto) {
    try {
      ::onnx::shape_inference::DataValueMap values;
      ::onnx::shape_inference::InferShapes(
          proto, &registry,
          ::onnx::ShapeInferenceOptions(/*check_type=*/true, /*strict=*/1, /*data_prop=*/true),
          &values);
    } catch (const std::exception &e) {
      rethrow(e.what());
    }
  }

  //===--------------------------------------------------------------------===//
  // Loops
  //===--------------------------------------------------------------------===//

  using Types = std::unordered_map<std::string, const TypeProto *>;
  // For each loop in order, for each carried value: the assumed type, or none.
  using Assumptions = std::vector<std::vector<std::optional<TypeProto>>>;

  // Visits loops, outer ones first, with the types seen from their inputs.
  template <typename Visit> static void visitLoops(GraphProto &g, Types scope, Visit visit) {
    for (auto *list : {&g.input(), &g.value_info(), &g.output()})
      for (auto &v : *list)
        if (v.has_type())
          scope[v.name()] = &v.type();
    for (NodeProto &node : *g.mutable_node()) {
      if (node.domain().empty() && node.op_type() == "Loop")
        visit(g, node, *bodyOf(node), scope);
      for (AttributeProto &a : *node.mutable_attribute()) {
        if (a.has_g())
          visitLoops(*a.mutable_g(), scope, visit);
        for (GraphProto &inner : *a.mutable_graphs())
          visitLoops(inner, scope, visit);
      }
    }
  }

  // Without the symbols of one run of inference: the next one makes them anew.
  static std::optional<TypeProto> shaped(const TypeProto *type) {
    if (!type || !type->has_tensor_type() || !type->tensor_type().has_shape())
      return std::nullopt;
    TypeProto copy = *type;
    for (auto &dim : *copy.mutable_tensor_type()->mutable_shape()->mutable_dim())
      if (llvm::StringRef(dim.dim_param()).starts_with("unk__"))
        dim.clear_value();
    return copy;
  }

  // Widens `into` to hold `type` as well; false if that leaves no shape.
  static bool join(TypeProto &into, const TypeProto &type) {
    auto &shape = *into.mutable_tensor_type()->mutable_shape();
    if (!type.tensor_type().has_shape() || shape.dim_size() != type.tensor_type().shape().dim_size())
      return false;
    for (int i = 0; i < shape.dim_size(); ++i) {
      auto &x = *shape.mutable_dim(i);
      auto &y = type.tensor_type().shape().dim(i);
      bool same = x.has_dim_value() ? y.has_dim_value() && x.dim_value() == y.dim_value()
                                    : x.has_dim_param() && x.dim_param() == y.dim_param();
      if (!same)
        x.clear_value();
    }
    return true;
  }

  static void assume(ModelProto &proto, const Assumptions &assumed) {
    size_t loop = 0;
    visitLoops(*proto.mutable_graph(), {}, [&](GraphProto &g, NodeProto &node, GraphProto &body, Types &) {
      if (loop >= assumed.size())
        return;
      auto &states = assumed[loop++];
      for (size_t i = 0; i < states.size(); ++i) {
        if (!states[i])
          continue;
        *body.mutable_input(i + 2)->mutable_type() = *states[i];
        const std::string &result = node.output(i);
        if (result.empty())
          continue;
        for (ValueInfoProto &v : *g.mutable_output())
          if (v.name() == result)
            *v.mutable_type() = *states[i];
        ValueInfoProto &v = *g.add_value_info();
        v.set_name(result);
        *v.mutable_type() = *states[i];
      }
    });
  }

  void inferLoops() {
    Assumptions assumed;
    ModelProto attempt;
    for (int round = 0; round < kMaxRounds; ++round) {
      attempt = model.proto;
      assume(attempt, assumed);
      try {
        infer(attempt);
      } catch (const ImportError &) {
        if (assumed.empty())
          throw;
        break;
      }
      if (!widen(attempt, assumed)) {
        model.proto.Swap(&attempt);
        return;
      }
    }
    infer(model.proto); // no assumption holds
  }

  // Compares what was assumed with what came out; true if anything changed.
  bool widen(ModelProto &attempt, Assumptions &assumed) {
    bool changed = false;
    Assumptions next;
    size_t loop = 0;
    visitLoops(*attempt.mutable_graph(), {}, [&](GraphProto &, NodeProto &node, GraphProto &body,
                                                  Types &scope) {
      bool known = loop < assumed.size();
      std::vector<std::optional<TypeProto>> states;
      for (int i = 0; i + 2 < node.input_size(); ++i) {
        if (i + 2 >= body.input_size() || i + 1 >= body.output_size() || i >= node.output_size())
          fail(node, "the body does not take and give the values that the loop carries");
        bool dropped = known && shapeless.contains({loop, i});
        std::optional<TypeProto> state = known ? assumed[loop][i] : std::nullopt;
        if (!state && !dropped) {
          auto it = scope.find(node.input(i + 2));
          state = shaped(it == scope.end() ? nullptr : it->second);
          if (state && body.input(i + 2).type().tensor_type().has_shape())
            join(*state, body.input(i + 2).type());
          changed |= state.has_value();
        } else if (state) {
          TypeProto before = *state;
          if (!join(*state, body.output(i + 1).type())) {
            state = std::nullopt;
            shapeless.insert({loop, i});
            changed = true;
          } else {
            changed |= before.SerializeAsString() != state->SerializeAsString();
          }
        }
        states.push_back(state);
      }
      next.push_back(std::move(states));
      ++loop;
    });
    assumed = std::move(next);
    return changed;
  }

  // Some operators do not look into their bodies; these see nothing from outside.
  void inferDetachedBodies() {
    std::unordered_map<std::string, int> opsets;
    for (auto &import : model.proto.opset_import())
      opsets[import.domain()] = (int)import.version();
    forEachGraph(*model.proto.mutable_graph(), [&](GraphProto &outer) {
      for (NodeProto &node : *outer.mutable_node())
        for (AttributeProto &a : *node.mutable_attribute()) {
          if (!a.has_g() || node.domain() != "ai.onnx.preview")
            continue;
          try {
            ::onnx::shape_inference::InferShapes(
                a.mutable_g(), opsets, &registry,
                ::onnx::ShapeInferenceOptions(/*check_type=*/true, /*strict=*/1));
          } catch (const std::exception &e) {
            rethrow(e.what());
          }
        }
    });
  }

  Model &model;
  Registry registry;
  bool hasLoops = false;
  std::vector<std::pair<std::string, std::string>> guessed;
  std::set<std::pair<size_t, int>> shapeless; // states without a common shape
};

} // namespace

void inferTypes(Model &model) { Inference(model).run(); }

ModelProto inferLeniently(const ModelProto &proto) {
  ModelProto typed = proto;
  forEachGraph(*typed.mutable_graph(), [](GraphProto &g) {
    std::unordered_set<std::string> known;
    for (const NodeProto &node : g.node())
      if (findContrib(node))
        known.insert(node.output().begin(), node.output().end());
    // Writers get shapes wrong; the recipes do not.
    for (auto *list : {g.mutable_value_info(), g.mutable_output()})
      for (ValueInfoProto &v : *list)
        if (known.contains(v.name()) && v.type().has_tensor_type())
          v.mutable_type()->mutable_tensor_type()->clear_shape();
  });
  Registry registry;
  try {
    ::onnx::shape_inference::InferShapes(
        typed, &registry, ::onnx::ShapeInferenceOptions(/*check_type=*/false, /*strict=*/0, /*data_prop=*/true));
  } catch (const std::exception &) { // the strict inference that follows will say it
  }
  return typed;
}

} // namespace tessera::onnx_import
