// The model between its phases: the protobuf without its large payloads.
//
// Order of the phases, and why (each is a file of its own):
//   load       parse; move large payloads aside, so that nothing below copies them
//   order      sort nodes topologically; cycles, undefined and duplicate names end here
//   check      the ONNX checker, on the stripped model
//   contrib    operators of com.microsoft become calls of functions; a lenient
//              inference finds the types that this needs
//   inline     model-local functions; every node keeps the operator set it was written for
//   specialise dimensions that the user fixed
//   upgrade    every node to the newest version of its operator
//   infer      strict shape inference with data propagation
//   build      the module
#ifndef TESSERA_COMPILER_IMPORT_MODEL_H
#define TESSERA_COMPILER_IMPORT_MODEL_H

#include "compiler/Import/Import.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "onnx/onnx_pb.h"

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace onnx {
class OpSchema;
}

namespace tessera::onnx_import {

using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::TypeProto;
using ::onnx::ValueInfoProto;
using NodeList = google::protobuf::RepeatedPtrField<NodeProto>;

/// A refusal; becomes one diagnostic. Never leaves importOnnx().
struct ImportError : std::runtime_error {
  ImportError(const std::string &message, std::string node = "")
      : std::runtime_error(message), node(std::move(node)) {}
  std::string node; // location, empty: the model
  std::vector<std::string> notes;
};

/// "node 'conv1' (Conv)", or by its first output where it has no name.
std::string describe(const NodeProto &node);
/// Location name of a node.
std::string locationName(const NodeProto &node);
[[noreturn]] void fail(const NodeProto &node, const std::string &message);

/// Bytes that outlive the protobuf.
struct Payload {
  llvm::ArrayRef<char> bytes;
  std::shared_ptr<const void> owner;
};

struct Model {
  std::string path;
  std::string folder;
  ModelProto proto;
  std::vector<Payload> payloads;
  std::vector<std::string> externalFiles;
  int64_t irVersion = 0;
  std::map<std::string, int64_t> opsets; // by domain, "" for ai.onnx
  /// Overridable initialisers by the name of their input.
  std::map<std::string, TensorProto> defaults;
  /// Ranges given by the user, by input name and axis.
  std::map<std::pair<std::string, int>, DimSpec> ranges;
  std::vector<std::string> warnings;
};

/// Visits every tensor of the model: initialisers, attributes, bodies, functions.
void forEachTensor(ModelProto &model, const std::function<void(TensorProto &, const std::string &where)> &visit);
/// Visits a graph and the bodies inside it, outer ones first.
void forEachGraph(GraphProto &graph, const std::function<void(GraphProto &)> &visit);

/// Names of values, to find new ones.
class NameSet {
public:
  explicit NameSet(GraphProto &graph);
  std::string unique(const std::string &wanted);

private:
  llvm::StringMap<char> names;
};

// Load.
void loadModel(Model &model, const ImportOptions &options);
/// Runs `check` while detached tensors look empty: the checker would look for
/// their files. Afterwards their external location is their place in `payloads`.
void checkWithoutPayloads(Model &model, const std::function<void()> &check);
/// The payload of a tensor in raw_data layout, wherever it is. `storage` is used
/// where it has to be put together. Not for strings.
llvm::ArrayRef<char> tensorBytes(const Model &model, const TensorProto &tensor,
                                 std::vector<char> &storage, std::shared_ptr<const void> &owner);
/// Number of elements; refuses negative dimensions and overflow.
int64_t elementCount(const TensorProto &tensor, const std::string &where);

// Order.
void sortModel(ModelProto &model);
/// Names that a graph or a node uses from outside itself.
void collectFreeNames(const NodeProto &node, std::vector<std::string> &names);

// Check.
void checkModel(Model &model);

// Scopes, before anything knows a value by its name alone.
void separateNames(Model &model);

// Contrib.
void lowerContrib(Model &model);

// Inline.
void inlineFunctions(Model &model);

// Specialise.
void specialiseDims(Model &model, const ImportOptions &options);

// Upgrade.
void upgradeModel(Model &model);
/// The newest operator set of a domain, 0 for one that we know nothing of.
int64_t newestVersion(const std::string &domain);
/// The newest schema of an operator that is not deprecated; null if none.
const ::onnx::OpSchema *newestSchema(const NodeProto &node);
/// The operator set version that `node` was written for.
int64_t nodeVersion(const Model &model, const NodeProto &node);
void setNodeVersion(NodeProto &node, int64_t version);

// Infer.
void inferTypes(Model &model);
/// A copy with the types that can be found, contradictions left aside.
ModelProto inferLeniently(const ModelProto &proto);

// Build.
mlir::OwningOpRef<mlir::ModuleOp> buildModule(Model &model, const ImportOptions &options,
                                              mlir::MLIRContext *context);

} // namespace tessera::onnx_import

#endif
