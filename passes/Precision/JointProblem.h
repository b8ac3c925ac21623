// Precision and device as one partition problem.
//
// Two problems of the same model are given: of the float model, and of the one
// in which every candidate unit is quantised. What must be decided together is
// one operator: groups of either that share nodes, and the nodes of a unit. Its
// options are those of the float groups, without loss, and those of the integer
// groups, with the noise that its units add when they alone are integers.
//
//   state of a tensor     who reads it
//   cpu                   float groups, on the CPU
//   unit:f16, unit:f32    float groups there
//   integers              integer groups on the CPU
//   unit:int8             integer groups there
//
// The way from a float state to an integer one is a QuantizeLinear on the CPU
// and the copy of the bytes. There is none back, since float nodes and outputs
// read the value itself, not what was rounded (passes/Quantise): a unit with
// such a reader writes floats, which integer groups do on the CPU only; or its
// exits (passes/Quantise/Exits.h) are taken, at the price of their noise, of
// the copy and of a DequantizeLinear on the CPU.
#ifndef TESSERA_PASSES_PRECISION_JOINTPROBLEM_H
#define TESSERA_PASSES_PRECISION_JOINTPROBLEM_H

#include "passes/Partition/BuildProblem.h"

#include <set>

namespace tessera {

/// A problem and the model's nodes in each of its operators; none in inputs and
/// outputs.
struct JointSide {
  partition::Problem problem;
  std::vector<std::vector<std::string>> nodes;
};
JointSide sideOf(const ModelProblem &model);

/// A candidate for integers.
struct JointUnit {
  std::vector<std::string> nodes;
  double noise =
      0; ///< share of the worst part's power, when it alone is integers
  bool forced = false; ///< a recipe keeps it integers
  /// Of an exit (passes/Quantise/Exits.h): the unit whose result its readers
  /// get rounded. It has no nodes of its own.
  int exitOf = -1;
};

struct JointOptions {
  double limit = 0;               ///< the budget: most noise
  double halfNoise = 0;           ///< of all groups together in float16
  partition::Conversion quantise; ///< QuantizeLinear on the CPU
  std::vector<std::pair<std::string, unsigned>>
      pins; ///< node, unit of the target
};

struct JointProblem {
  partition::Problem problem;
  partition::Allowed allowed;
  std::vector<std::set<int>> units; ///< per operator: the candidates in it
  std::vector<std::set<int>> exits; ///< and the exits behind these
  /// Per operator and option.
  enum Form : char { Float, Integer, IntegerWithExits };
  std::vector<std::vector<char>> integer;
  double noisePerSensitivity = 0;

  /// The candidates that an answer makes integers.
  std::set<int> integersOf(const partition::Solution &solution) const;
  /// Sets the budget to a noise.
  void allow(double noise);
};

/// `devices` are those of both problems.
JointProblem joinProblems(const JointSide &floats, const JointSide &integers,
                          const std::vector<PlacementDevice> &devices,
                          const std::vector<JointUnit> &units,
                          const JointOptions &options);

} // namespace tessera
#endif
