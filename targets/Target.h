// Target descriptions: what a chip is, as data (README.md has the schema).
#ifndef TESSERA_TARGETS_TARGET_H
#define TESSERA_TARGETS_TARGET_H

#include "targets/Vulkan/Device.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// Where a number comes from. Only a fitter may write Fitted ones.
enum class Origin { Documented, Observed, Fitted, Assumed };
llvm::StringRef originName(Origin origin);

/// A number of a description, in the unit that its place in the schema asks
/// for.
struct Quantity {
  double value = 0;
  std::string unit, source;
  Origin origin = Origin::Assumed;
};

/// How tensors are stored on a unit: f16 accumulates in f32, int8 in i32. Int16
/// is of activations: weights have 8 bits, tensors of 8 bits are served as well,
/// sums have 48.
enum class Precision { F32, F16, Int8, Int16 };
constexpr Precision allPrecisions[] = {Precision::F32, Precision::F16, Precision::Int8, Precision::Int16};
llvm::StringRef precisionName(Precision precision);
/// Whether floats are only what integers mean.
constexpr bool isQuantised(Precision p) { return p == Precision::Int8 || p == Precision::Int16; }
/// Bytes of an activation.
constexpr unsigned storedBytes(Precision p) { return p == Precision::F32 ? 4 : p == Precision::Int8 ? 1 : 2; }

enum class UnitKind { Cpu, Gpu, Npu };

/// Parameters of the cost model (CostModel.h) for one unit and precision.
struct CostParams {
  Quantity peakMacs;                                         ///< GMAC/s
  Quantity uDense, uDepthwise, uMatmul, uLinear, uBandwidth; ///< ratio
  Quantity vectorRate;                                       ///< GB/s read and written by elementwise arithmetic
  Quantity lutRate;                                          ///< Gelem/s of transcendental functions
  Quantity opTime;                                           ///< us an operator inside a run
};

struct Memory {
  std::string name;
  Quantity size;      ///< MiB
  Quantity bandwidth; ///< GB/s, theoretical
};

/// Copies from one memory to another.
struct Link {
  unsigned from = 0, to = 0;          ///< indices into memories
  bool zeroCopy = false;              ///< buffers are shared; only cache maintenance is paid
  Quantity fixed;                     ///< us a transfer
  Quantity bandwidth;                 ///< GB/s of the copy itself; absent (0) for zero-copy
  Quantity maintenance;               ///< GB/s of cache cleaning or invalidation; 0: none
  int64_t fixedNs = 0, psPerByte = 0; ///< what the above amounts to
};

/// What a constraint looks at. README.md says what each is of which operator.
enum class Subject {
#define TESSERA_SUBJECT(id, word, argument, unit, text) id,
#include "targets/Subjects.def"
#undef TESSERA_SUBJECT
};

/// A predicate over one operator. All limits given must hold for every element
/// of the subject.
struct Constraint {
  Subject subject;
  std::string argument; ///< attribute's or operand's name, where the subject needs one
  std::optional<int64_t> axis;
  std::optional<double> min, max, multiple;
  std::vector<double> numbers;    ///< one_of, of numbers
  std::vector<std::string> words; ///< one_of, of words
  Origin origin = Origin::Assumed;
  std::string source;
};

/// Rules of one unit for some operators. The first entry that serves the
/// precision and whose `when` holds decides.
struct OpRule {
  std::vector<std::string> ops;      ///< "Conv"
  std::vector<Precision> precisions; ///< never empty
  std::vector<Constraint> when, require;
  std::string refuse; ///< if not empty: never placed, and why
  Quantity time;      ///< us on top of what the cost model says; usually 0
  /// Operands that may have other element types than the precision's.
  std::map<std::string, std::vector<std::string>> dtypes;
  Origin origin = Origin::Assumed;
  std::string source;
};

struct Unit {
  std::string name, backend; ///< backend: "cpu", "tosa-ref", "ethos-u", "rknn" or "vulkan"
  /// What the vendor's compiler is told, in its own words; of rknn only the first,
  /// the chip.
  std::string accelerator, systemConfig, memoryMode;
  vulkan::Device gpu; ///< of vulkan: features and limits that kernels are made for
  UnitKind kind = UnitKind::Cpu;
  bool segments = false; ///< work is submitted in segments, each with a launch
  unsigned memory = 0;   ///< index into memories
  std::vector<Precision> precisions;
  Quantity channelGranule; ///< channels are padded to a multiple of it
  Quantity onChip;         ///< KiB; activations beyond it count as traffic
  Quantity launch;         ///< us a segment; 0 without segments
  std::map<Precision, CostParams> params;
  std::vector<Constraint> always; ///< hold for every operator
  std::vector<OpRule> ops;        ///< empty for backend "cpu": its kernels decide

  bool supports(Precision p) const;
  /// Whether an operator without a rule may run: its backend knows the hardware's limits.
  bool decidesItself() const { return backend == "cpu" || backend == "ethos-u" || backend == "vulkan"; }
  /// What a host must drive to run the unit's artefacts (FORMAT.md, Devices); empty
  /// if it is always played.
  std::string deviceKind() const;
};

struct TargetDescription {
  std::string name, summary;
  std::vector<std::string> cpuVariants; ///< ISA variants, best first
  std::vector<Memory> memories;
  std::vector<Unit> units; ///< the CPU is first
  std::vector<Link> links;
  std::string text; ///< the YAML it was read from
  std::string file; ///< where that was; empty if it is built in

  /// Null if there is none.
  const Link *link(unsigned fromMemory, unsigned toMemory) const;
  std::optional<unsigned> findUnit(llvm::StringRef name) const;
};

/// Built-in descriptions, sorted by name.
llvm::ArrayRef<TargetDescription> builtinTargets();
/// As it is written; empty if none has that name.
llvm::StringRef builtinTargetText(llvm::StringRef name);
/// A built-in name, or the path of a YAML file.
llvm::Expected<TargetDescription> findTarget(llvm::StringRef nameOrPath);
/// Parses and checks one description; `origin` is named in errors. All faults
/// are reported, one a line, as "origin:line:column: what".
llvm::Expected<TargetDescription> parseTarget(llvm::StringRef text, llvm::StringRef origin);

} // namespace tessera
#endif
