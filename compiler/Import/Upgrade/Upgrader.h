// Every node to the newest version of its operator.
//
// ONNX's version converter rebuilds the whole model (names and functions get
// lost, payloads are copied), has no adapters for many of the first versions,
// and several of those it has change the meaning: Resize 10 becomes half_pixel,
// Hardmax 12 changes its axis, Scan 8 loses its batch dimension, an anonymous
// output takes the place of absent inputs. Hence our own, from version 1 on.
//
// An operator without an adapter has changed in ways that old nodes do not
// notice (more types, new attributes whose default is the old behaviour); the
// schema of the newest version checks the result. What has no equal today is
// refused.
#ifndef TESSERA_COMPILER_IMPORT_UPGRADE_UPGRADER_H
#define TESSERA_COMPILER_IMPORT_UPGRADE_UPGRADER_H

#include "compiler/Import/Model.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace tessera::onnx_import {

AttributeProto *findAttribute(NodeProto &node, const std::string &name);
int64_t intAttribute(NodeProto &node, const std::string &name,
                     int64_t fallback);
std::string stringAttribute(NodeProto &node, const std::string &name,
                            const std::string &fallback);
void removeAttribute(NodeProto &node, const std::string &name);
void setAttribute(NodeProto &node, const std::string &name, int64_t value);
void setAttribute(NodeProto &node, const std::string &name, float value);
void setAttribute(NodeProto &node, const std::string &name,
                  const std::string &value);
/// Fills up with absent inputs where `index` is beyond the last.
void setInput(NodeProto &node, int index, const std::string &name);
TensorProto intTensor(const std::vector<int64_t> &values, bool scalar = false);

class Upgrader {
public:
  explicit Upgrader(Model &model);
  void run();

  //===--------------------------------------------------------------------===//
  // What adapters ask
  //===--------------------------------------------------------------------===//

  /// The shape of a value as far as inference found it, null if not even its
  /// rank is known.
  const ::onnx::TensorShapeProto *shapeOf(const std::string &value) const;
  /// UNDEFINED where it is not known.
  int elementTypeOf(const std::string &value) const;
  /// Whether an operator or the model reads the value.
  bool isUsed(const std::string &value) const { return used.contains(value); }
  /// The dimensions of a constant.
  const std::vector<int64_t> *constantDims(const std::string &value) const;
  /// The number that a constant of one element holds.
  std::optional<double> constantNumber(const std::string &value) const;

  //===--------------------------------------------------------------------===//
  // What adapters append, in front of the node
  //===--------------------------------------------------------------------===//

  /// A constant; returns its name. `what` is for the location.
  std::string constant(const NodeProto &node, const std::string &what,
                       const TensorProto &value);
  /// A node of one output.
  NodeProto &insert(const NodeProto &node, const std::string &op,
                    const std::string &what,
                    const std::vector<std::string> &inputs);
  /// A scalar of the element type of `like`.
  std::string scalarLike(const NodeProto &node, const std::string &what,
                         float value, const std::string &like);
  /// The node itself, which is empty afterwards.
  void append(NodeProto &node);
  /// An attribute of integers becomes input `index`.
  void intsToInput(NodeProto &node, const std::string &name, int index);
  std::string unique(const std::string &wanted) { return names.unique(wanted); }

private:
  bool needsTypes(const NodeProto &node) const;
  void addImports(GraphProto &graph);
  void collectUses(GraphProto &graph);
  void inferOldTypes();
  void infer(NodeProto &node);
  void trimOutputs(NodeProto &node);
  void upgrade(GraphProto &graph);
  void finish(NodeProto &node);
  bool adapt(NodeProto &node);
  void verify(const NodeProto &node) const;
  void checkCounts(const NodeProto &node) const;
  void fillDefaults(NodeProto &node) const;
  void noteConstant(const std::string &name, const TensorProto &value);

  Model &model;
  NameSet names;
  NodeList *out = nullptr;
  bool typed = false;
  std::unordered_set<std::string> used;
  std::unordered_map<std::string, std::vector<int64_t>> constants;
  std::unordered_map<std::string, TensorProto> smallConstants;
  std::unordered_map<std::string, TypeProto> types;
};

// Adapters, one function for each family. They change the node; true: they have
// appended it already, or what takes its place.
bool upgradeElementwise(Upgrader &up, NodeProto &node, int64_t version);
bool upgradeNeural(Upgrader &up, NodeProto &node, int64_t version);
bool upgradeMovement(Upgrader &up, NodeProto &node, int64_t version);
bool upgradeIndexing(Upgrader &up, NodeProto &node, int64_t version);
bool upgradeControlFlow(Upgrader &up, NodeProto &node, int64_t version);
bool upgradeMl(Upgrader &up, NodeProto &node, int64_t version);

} // namespace tessera::onnx_import

#endif
