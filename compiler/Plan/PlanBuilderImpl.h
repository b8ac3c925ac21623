// State shared by the parts of the plan builder: straight-line code
// (PlanBuilder.cpp), dispatches (Dispatches.cpp), control flow (ControlFlow.cpp), other devices (Segments.cpp).
#ifndef TESSERA_COMPILER_PLAN_PLANBUILDERIMPL_H
#define TESSERA_COMPILER_PLAN_PLANBUILDERIMPL_H

#include "compiler/Plan/PlanBuilder.h"

#include "targets/Target.h"

#include <map>

namespace tessera {

class PlanBuilder {
public:
  PlanBuilder(Lowering &l, cpu::Arch arch, const TargetDescription *target) : l(l), arch(arch), target(target) {}
  llvm::LogicalResult run();
  Plan plan;
  std::vector<cpu::KernelSource> sources;

private:
  using Sym = onnx::Sym;

  bool knownAtPrepare(Sym s);
  uint32_t lookup(Sym s);
  uint32_t reg(Sym s);
  uint32_t constantReg(int64_t v);
  void emitScalar(const PlanScalar &s, bool prepare);
  void assign(uint32_t phi, uint32_t source);

  Sym sizeOf(llvm::ArrayRef<Sym> dims, mlir::Type element);
  uint32_t newBuffer(BufferKind kind, llvm::StringRef name);
  uint32_t newTemporary(Sym size, llvm::StringRef name);
  uint32_t nullBuffer();
  uint32_t constantBuffer(mlir::ElementsAttr attr, std::optional<cpu::Packed> packed, llvm::StringRef name);
  uint32_t residence(mlir::Value v);
  uint32_t bufferOf(mlir::Value v);
  uint32_t rootOf(uint32_t buffer);
  uint32_t use(uint32_t buffer);

  uint32_t command(PlanCommand c);
  uint32_t label();
  uint32_t string(const std::string &text);
  void copy(uint32_t from, uint32_t to, uint32_t bytesReg, uint32_t toOffset = kNone);
  void checks(mlir::Operation *op, bool atPrepare);
  llvm::LogicalResult verifyChecked();
  uint32_t kernel(tsr::DispatchOp op, const cpu::KernelBuilder *builder, bool extents);
  llvm::LogicalResult dispatch(tsr::DispatchOp op);
  void emitDispatch(uint32_t kernelId, llvm::ArrayRef<uint32_t> operands, tsr::DispatchOp op, uint32_t workgroups,
                    bool flush);
  void findExtents(tsr::DispatchOp op, const cpu::KernelBuilder *builder, llvm::ArrayRef<uint32_t> inputs,
                   unsigned count);

  void write(mlir::Value v);
  llvm::LogicalResult block(mlir::Block &body);
  llvm::LogicalResult branch(mlir::Operation *op);
  llvm::LogicalResult loop(mlir::Operation *op);

  uint16_t poolOf(uint32_t ofDevice, bool shared);
  uint32_t deviceOf(uint32_t buffer);
  bool reachesCpu(uint32_t buffer);
  void moveToPool(uint32_t buffer, uint16_t pool);
  void findShared();
  void placeShared(mlir::Value v, uint32_t buffer);
  void fence(uint32_t ofDevice);
  void fenceAll();
  void settle(uint32_t buffer);
  uint32_t wholeOf(uint32_t buffer);
  bool hasMirror(uint32_t buffer, uint32_t target);
  uint32_t mirror(uint32_t buffer, uint32_t target);
  mlir::LogicalResult fetchForOthers(tsr::SegmentOp op);
  llvm::FailureOr<uint32_t> onDevice(mlir::Value v, tsr::SegmentOp op);
  void fetchForBodies(mlir::Operation *op);
  llvm::LogicalResult declareDevice(tsr::SegmentOp op);
  llvm::LogicalResult segment(tsr::SegmentOp op);
  bool isVulkan(uint32_t ofDevice) const;
  llvm::LogicalResult addShaders(tsr::SegmentOp op, uint32_t at);

  void agree(uint32_t extent, uint32_t now, uint32_t i, mlir::Operation *op, unsigned scan);
  void inputs();
  void outputs();
  void reuseInPlace();
  void finish();

  Lowering &l;
  cpu::Arch arch;
  const TargetDescription *target; ///< where GPUs' limits are
  llvm::DenseMap<mlir::Value, uint32_t> buffers;
  llvm::DenseMap<Sym, uint32_t> prepareRegs;
  std::vector<llvm::DenseMap<Sym, uint32_t>> scopes; ///< run-time registers, by region
  llvm::DenseMap<Sym, bool> prepareKnown;
  std::vector<PlanScalar> prepareScalars, runScalars;
  std::map<std::string, uint32_t> kernelOf;
  std::vector<std::pair<uint32_t, uint32_t>> spans; ///< commands of loops, head to end
  std::map<uint32_t, uint32_t> noBuffer; ///< by device
  bool labelHere = false;

  static constexpr uint16_t firstDevicePool = 2; ///< after the arena and the growing pool
  static constexpr uint64_t kUnknown = ~uint64_t(0);
  uint32_t device = 0;                  ///< who executes the commands that are built now
  std::vector<PlanPool> devicePools;
  std::vector<char> sharedPools;        ///< parallel: the CPU reaches it too
  std::vector<char> inFlight;           ///< by device: launched, not waited for
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> mirrors; ///< buffer and memory to the copy there
  llvm::DenseMap<mlir::Value, tsr::SegmentOp> sharedValues;
  uint32_t launches = 0;
  std::string rangeFault; ///< what a device cannot do

  llvm::DenseSet<size_t> checked; ///< requirements of the analysis that have a command
  std::string unresolved; ///< a size that no register holds where it is needed
};

/// Renumbers registers so that those the prepare program writes come first:
/// devices may read only these, since no command changes them.
void sortRegisters(Plan &plan);

} // namespace tessera
#endif
