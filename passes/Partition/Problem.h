// The partition problem: where each operator of an acyclic graph runs.
//
// An operator has options; an option names a device, the state in which all
// inputs are read, the state in which all outputs are written, a cost and a
// sensitivity (loss of accuracy, in units of its own). A state is a memory, an
// element type and a layout in one. A tensor read in another state than the one
// it was written in is copied once for each such state. Operators of a device
// with segments belong to segments: connected through their own tensors, one
// device each, and contracting them leaves the graph acyclic. A segment costs
// one launch. Wanted is the least sum of options, copies and launches whose
// sensitivities stay within the budget. All numbers are integers.
//
// A tensor that no operator writes is a constant and is everywhere.
// Device 0 is the host whenever it has no segments.
#ifndef TESSERA_PASSES_PARTITION_PROBLEM_H
#define TESSERA_PASSES_PARTITION_PROBLEM_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::partition {

using Cost = int64_t;

/// Sizes that the search's tables hold; the reader refuses what exceeds them.
constexpr size_t maxDevices = 16, maxStates = 16, maxOptions = 250, maxOps = 100'000, maxTensors = 1'000'000;
/// No sum of costs of one problem reaches this (about 78 hours in nanoseconds).
constexpr Cost maxTotal = Cost(1) << 48;
/// No sum of sensitivities reaches this.
constexpr Cost maxSensitivity = Cost(1) << 28;

struct Device {
  std::string name;
  Cost launch = 0;
  bool segments = false; ///< its operators are grouped into launched segments
};

struct Conversion {
  Cost fixed = 0, psPerElement = 0;
};

struct Option {
  int device = 0, input = 0, output = 0; ///< indices of a device and two states
  Cost cost = 0, sensitivity = 0;
};

struct Op {
  std::string name;
  std::vector<int> inputs, outputs; ///< tensors
  std::vector<Option> options;
};

struct Problem {
  std::string unit = "ns";
  std::vector<Device> devices;
  std::vector<std::string> states;
  std::vector<std::vector<std::optional<Conversion>>> conversions; ///< [from][to]; none: impossible
  std::vector<int64_t> elements;                                   ///< per tensor
  std::vector<Op> ops;
  std::optional<Cost> budget;

  bool hostFirst() const { return !devices.empty() && !devices[0].segments; }
};

struct Solution {
  std::vector<int> choice;  ///< per operator: index of its option
  std::vector<int> segment; ///< per operator: segment, or -1
  Cost cost = 0, lowerBound = 0, sensitivity = 0;
  bool optimal() const { return lowerBound >= cost; }
};

/// Reads and checks a problem; the error names the place in `text`.
llvm::Expected<Problem> readProblem(llvm::StringRef text, llvm::StringRef origin);
/// As above, from a file ("-": standard input).
llvm::Expected<Problem> readProblemFile(llvm::StringRef path);
void writeProblem(const Problem &problem, llvm::raw_ostream &os);
void writeSolution(const Solution &solution, llvm::raw_ostream &os);

} // namespace tessera::partition
#endif
