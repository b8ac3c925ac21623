// The executable plan: what the loader interprets, as C++ data.
//
// It mirrors runtime-stub/format/bundle.fbs one to one; the bundle writer adds
// segments and hashes. Producers append through the methods, which intern
// registers so that equal expressions are computed once.
#ifndef TESSERA_COMPILER_BUNDLE_PLAN_H
#define TESSERA_COMPILER_BUNDLE_PLAN_H

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace tessera {

inline constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

enum class BufferKind : uint8_t { Constant, Input, Output, Temporary, Dynamic, State };

enum class ScalarOp : uint8_t {
  Constant, InputDim, Add, Sub, Mul, FloorDiv, CeilDiv, Mod, Min, Max, Equal,
  Less, Select, LoadInt, TruncDiv
};

/// One integer instruction; see `Scalar` in bundle.fbs.
struct PlanScalar {
  ScalarOp op = ScalarOp::Constant;
  uint32_t dst = kNone, a = kNone, b = kNone, c = kNone;
  int64_t imm = 0;
};

enum class CommandKind : uint8_t {
  Dispatch, Scalars, Copy, Jump, BranchZero, Allocate, Release, Bind, Check,
  Fence, Fill, StoreInt, Launch
};

struct PlanCommand {
  CommandKind kind = CommandKind::Dispatch;
  uint32_t a = kNone, b = kNone, c = kNone, d = kNone, e = kNone, f = kNone;
  uint8_t device = 0; ///< who executes it: not 0 in the range of a Launch
  bool flushDenormals = false;
};

struct PlanBuffer {
  BufferKind kind = BufferKind::Temporary;
  uint64_t sizeBytes = 0;         ///< when sizeRegister is kNone
  uint32_t sizeRegister = kNone;  ///< register that holds the byte count
  uint32_t aliasOf = kNone;       ///< same storage as that buffer (chains are flattened by the writer)
  uint64_t aliasOffset = 0;       ///< bytes into it
  uint32_t firstCommand = 0, lastCommand = 0; ///< lifetime, both ends included
  uint16_t pool = 0;
  bool hasOffset = false;
  uint64_t offset = 0;            ///< arena offset, or offset in the data segment
  std::string name;               ///< for reports only
};

/// A dimension of an input or output: static, or held in a register.
struct PlanDim {
  int64_t value = -1, min = 0, max = std::numeric_limits<int64_t>::max(), multiple = 1;
  uint32_t reg = kNone;
  std::string name;
};

struct PlanTensor {
  std::string name;
  int32_t elementType = 0; ///< ONNX TensorProto.DataType
  std::vector<PlanDim> dims;
  uint32_t buffer = kNone;
  uint32_t defaultBuffer = kNone; ///< value of an overridable initialiser (a Constant buffer)
  std::vector<int64_t> defaultDims; ///< its shape; empty: the static dims
  uint8_t kind = 0;
};

struct PlanKernel {
  std::string name, kernelClass;
  std::vector<std::string> origin;
  uint32_t workgroups = 1;
};

/// One ISA variant: an ELF image and the address of each kernel in it.
struct PlanVariant {
  std::string name;
  uint16_t machine = 0;
  std::vector<std::string> features;
  std::vector<uint8_t> image;
  std::vector<uint64_t> entries;
};

struct PlanPool {
  std::string name;
  uint8_t device = 0; ///< whose memory it is; the CPU reaches all pools
  uint64_t staticBytes = 0;
  uint32_t alignment = 64;
  bool growing = false; ///< buffers in it exist from Allocate to Release
};

/// Bytes of one constant; `data` may alias the model file and is kept alive by
/// `owner`. The writer streams from `data` and stores equal contents once, so a
/// producer neither copies nor deduplicates. Each Constant buffer whose
/// `constantOf` names it has exactly `size` bytes.
struct PlanConstant {
  const uint8_t *data = nullptr;
  uint64_t size = 0;
  std::shared_ptr<const void> owner;
};

/// Who executes commands; number 0 is the CPU.
struct PlanDevice {
  std::string name, kind;
};

/// What a device's own tool chain made of a segment: carried, hashed, shown.
struct PlanArtefact {
  std::string name;
  const char *data = nullptr;
  uint64_t size = 0; ///< alive as long as the module is, or `owner`
  std::shared_ptr<const void> owner = nullptr;
};

struct Plan {
  std::vector<PlanTensor> inputs, outputs;
  std::vector<PlanBuffer> buffers;
  std::vector<PlanScalar> scalars;      ///< prepare program first, then run-time ones
  uint32_t prepareEnd = 0;              ///< scalars [0, prepareEnd) run at prepare
  std::vector<PlanCommand> commands;
  std::vector<uint32_t> operands;
  std::vector<PlanKernel> kernels;
  std::vector<PlanVariant> variants;
  std::vector<PlanPool> pools;          ///< 0: static arena, 1: dynamic pool
  std::vector<PlanConstant> constants;  ///< parallel to the Constant buffers, by `constantOf`
  std::vector<uint32_t> constantOf;     ///< buffer -> constant or kNone
  std::vector<std::string> strings;
  std::vector<PlanDevice> devices = {{"cpu", "cpu"}};
  std::vector<PlanArtefact> artefacts;  ///< one Device segment each; Launch.c counts in them
  uint32_t registers = 0;
  std::vector<std::string> provenanceOptions;
  std::string modelHash, target, tool;
};

} // namespace tessera
#endif
