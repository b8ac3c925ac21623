// Pins of everything on a problem of three groups: one that the unit takes in two
// precisions, one that it does not take, and one that a pin of its own keeps away.
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "passes/Partition/BuildProblem.h"
#include <catch2/catch_test_macros.hpp>

using namespace tessera;

namespace {

struct Fixture {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> node;
  TargetDescription target;
  ModelProblem model;
  partition::Allowed allowed;

  Fixture() {
    mlir::Location loc = mlir::NameLoc::get(mlir::StringAttr::get(&context, "own"));
    node = mlir::ModuleOp::create(loc);
    target.name = "toy";
    target.units.resize(3);
    target.units[0].name = "cpu";
    target.units[1].name = "gpu";
    target.units[2].name = "npu";
    model.devices = {{0, Precision::F32}, {1, Precision::F32}, {1, Precision::F16}, {2, Precision::F16}};
    for (const char *name : {"cpu", "gpu:f32", "gpu:f16", "npu:f16"})
      model.problem.devices.push_back({name, 0, false});
    addGroup({0}, false); // the model's inputs
    addGroup({0, 1, 2, 3}, true);
    addGroup({0, 3}, true);
    allowed = partition::allowAll(model.problem);
  }
  void addGroup(llvm::ArrayRef<int> devices, bool nodes) {
    partition::Op op;
    for (int d : devices)
      op.options.push_back({d, d, d, 1, 0});
    model.problem.ops.push_back(op);
    model.groups.emplace_back();
    if (nodes)
      model.groups.back().ops.push_back(*node);
  }
  std::string pin(const std::string &text) { return llvm::toString(pinNode(model, target, text, allowed)); }
};

using Row = partition::Allowed::value_type;

} // namespace

TEST_CASE("'*' leaves a group the unit's options, all of them, and others theirs") {
  Fixture f;
  CHECK(f.pin("*=gpu") == "");
  CHECK(f.allowed[0] == Row{1});
  CHECK(f.allowed[1] == Row{0, 1, 1, 0});
  CHECK(f.allowed[2] == Row{1, 1});
}

TEST_CASE("'*' does not undo a pin, nor an earlier '*'") {
  Fixture f;
  CHECK(f.pin("*=npu") == "");
  CHECK(f.pin("*=gpu") == "");
  CHECK(f.allowed[1] == Row{0, 0, 0, 1});
  CHECK(f.allowed[2] == Row{0, 1});
}

TEST_CASE("'*' may name a precision") {
  Fixture f;
  CHECK(f.pin("*=gpu:f16") == "");
  CHECK(f.allowed[1] == Row{0, 0, 1, 0});
  CHECK(f.allowed[2] == Row{1, 1});
}

TEST_CASE("'*' wants a unit that exists") {
  Fixture f;
  CHECK(f.pin("*=dsp") == "--pin *=dsp: target toy has no unit 'dsp', or not in that precision");
  CHECK(f.pin("*=") == "--pin *=: must be NODE=UNIT or NODE=UNIT:PRECISION");
}
