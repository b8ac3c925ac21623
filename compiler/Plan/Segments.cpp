// Segments: what another device computes, and the movement that this needs.
//
// A value lives where it is made. It is copied at the moment somebody on the
// other side asks for it, once for each tensor and memory: `mirrors` knows the
// copies, views share the copy of what they are a view of. Between a launch and
// the fence after it no other command touches the device's memory, so that
// everything there happens in the order of the list although the device is on
// its own; the fence comes as late as that allows.
#include "compiler/Plan/PlanBuilderImpl.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "runtime-stub/format/Vulkan.h"

using namespace mlir;

namespace tessera {

// --- the device's memory -------------------------------------------------------------

/// The pool of a device: its own memory, or what it shares with the CPU.
uint16_t PlanBuilder::poolOf(uint32_t ofDevice, bool shared) {
  for (auto [i, pool] : llvm::enumerate(devicePools))
    if (pool.device == ofDevice && (sharedPools[i] != 0) == shared)
      return firstDevicePool + i;
  PlanPool pool{.name = plan.devices[ofDevice].name + (shared ? ".shared" : "")};
  pool.device = ofDevice;
  if (isVulkan(ofDevice))
    pool.alignment = format::vulkan::kRangeAlignment;
  devicePools.push_back(std::move(pool));
  sharedPools.push_back(shared);
  return firstDevicePool + devicePools.size() - 1;
}

/// The device in whose memory a buffer lies; 0 for the CPU's, and for constants,
/// which everybody reads.
uint32_t PlanBuilder::deviceOf(uint32_t buffer) {
  const PlanBuffer &root = plan.buffers[rootOf(buffer)];
  if (root.kind == BufferKind::Constant || root.pool < firstDevicePool)
    return 0;
  return devicePools[root.pool - firstDevicePool].device;
}

bool PlanBuilder::reachesCpu(uint32_t buffer) {
  const PlanBuffer &root = plan.buffers[rootOf(buffer)];
  return !deviceOf(buffer) || sharedPools[root.pool - firstDevicePool];
}

/// Moves a buffer that nothing has touched yet, with what shows parts of it.
void PlanBuilder::moveToPool(uint32_t buffer, uint16_t pool) {
  uint32_t root = rootOf(buffer);
  for (uint32_t b = 0; b < plan.buffers.size(); ++b)
    if (rootOf(b) == root)
      plan.buffers[b].pool = pool;
}

/// What `v` shows.
static Value shown(Value v) {
  for (Operation *def = v.getDefiningOp(); def && isView(def); def = v.getDefiningOp())
    v = def->getOperand(0);
  return v;
}

/// Whether somebody else reads `v` while the segment is under way, for which a
/// shared buffer would have to be waited for: behind the segment, and before
/// something reads what its device computes.
static bool isReadBeside(tsr::SegmentOp op, Value v) {
  for (Operation *next = op->getNextNode(); next; next = next->getNextNode()) {
    auto other = dyn_cast<tsr::SegmentOp>(next);
    bool same = other && other.getDevice() == op.getDevice(), reads = false, fences = false;
    next->walk([&](Operation *inner) {
      for (Value read : inner->getOperands()) {
        reads |= shown(read) == v;
        auto from = shown(read).getDefiningOp<tsr::SegmentOp>();
        fences |= from && from.getDevice() == op.getDevice();
      }
    });
    if (fences && !same)
      return false;
    if (reads && !same && !isView(next))
      return true;
  }
  return false;
}

/// Finds the values that zero-copy segments read: they are made in memory that
/// both sides reach. What others read meanwhile is copied instead, so that they need
/// not wait for the device; the estimate of a plan leaves these copies out.
void PlanBuilder::findShared() {
  llvm::DenseSet<Value> copied;
  l.func.walk([&](tsr::SegmentOp op) {
    for (Value input : op.getZeroCopy() ? ValueRange(op.getInputs()) : ValueRange())
      if (Value v = shown(input); isReadBeside(op, v))
        copied.insert(v);
      else
        sharedValues.try_emplace(v, op);
  });
  for (Value v : copied)
    sharedValues.erase(v);
}

/// To be called for a new buffer of `v`, before it is used.
void PlanBuilder::placeShared(Value v, uint32_t buffer) {
  auto it = sharedValues.find(v);
  if (device || it == sharedValues.end() || plan.buffers[buffer].pool != 0 || failed(declareDevice(it->second)))
    return;
  plan.buffers[buffer].pool = poolOf(it->second.getDevice(), /*shared=*/true);
}

// --- movement ------------------------------------------------------------------------

void PlanBuilder::fence(uint32_t ofDevice) {
  if (ofDevice >= inFlight.size() || !inFlight[ofDevice])
    return;
  inFlight[ofDevice] = false;
  command({.kind = CommandKind::Fence, .a = ofDevice});
}

void PlanBuilder::fenceAll() {
  for (uint32_t d = 1; d < inFlight.size(); ++d)
    fence(d);
}

/// The next command is the CPU's and touches `buffer`.
void PlanBuilder::settle(uint32_t buffer) {
  if (!device)
    fence(deviceOf(buffer));
}

/// What is copied for a buffer: a view shares the copy of what it is a view of.
uint32_t PlanBuilder::wholeOf(uint32_t buffer) {
  uint32_t whole = buffer;
  auto bytesOf = [&](uint32_t b) {
    return plan.buffers[b].sizeRegister == kNone ? plan.buffers[b].sizeBytes : kUnknown;
  };
  while (plan.buffers[whole].aliasOf != kNone && bytesOf(plan.buffers[whole].aliasOf) == bytesOf(buffer) &&
         plan.buffers[whole].aliasOffset == 0)
    whole = plan.buffers[whole].aliasOf;
  return whole;
}

bool PlanBuilder::hasMirror(uint32_t buffer, uint32_t target) { return mirrors.count({wholeOf(buffer), target}); }

/// The copy of a buffer in the memory of `target`, made now if there is none.
uint32_t PlanBuilder::mirror(uint32_t buffer, uint32_t target) {
  uint32_t whole = wholeOf(buffer);
  auto it = mirrors.find({whole, target});
  if (it == mirrors.end()) {
    fence(target);
    std::string name = plan.buffers[whole].name;
    uint32_t fresh = newBuffer(BufferKind::Temporary, name);
    plan.buffers[fresh].sizeBytes = plan.buffers[whole].sizeBytes;
    plan.buffers[fresh].pool = target ? poolOf(target, false) : 0;
    uint32_t source = target && reachesCpu(whole) ? 0 : deviceOf(whole);
    copy(whole, fresh, constantReg(plan.buffers[whole].sizeBytes));
    mirrors[{fresh, source}] = whole;
    it = mirrors.insert({{whole, target}, fresh}).first;
  }
  if (whole == buffer)
    return it->second;
  uint32_t view = newBuffer(BufferKind::Temporary, plan.buffers[buffer].name);
  plan.buffers[view].aliasOf = it->second;
  plan.buffers[view].sizeBytes = plan.buffers[buffer].sizeBytes;
  plan.buffers[view].pool = plan.buffers[it->second].pool;
  return view;
}

/// Where a segment finds an operand: in its memory, or among the constants.
FailureOr<uint32_t> PlanBuilder::onDevice(Value v, tsr::SegmentOp op) {
  uint32_t target = op.getDevice(), id = residence(v);
  if (plan.buffers[rootOf(id)].kind == BufferKind::Constant || deviceOf(id) == target)
    return id;
  id = bufferOf(v);
  if (plan.buffers[id].sizeRegister != kNone) {
    // A static tensor in a buffer whose size only the run knows: its own view.
    uint32_t view = newBuffer(BufferKind::Temporary, plan.buffers[id].name);
    auto bytes = sizeOf(l.dims(v), cast<RankedTensorType>(v.getType()).getElementType())->constant();
    if (!bytes)
      return op.emitError("operand of a segment has a size that is not known");
    plan.buffers[view].aliasOf = id;
    plan.buffers[view].sizeBytes = *bytes;
    plan.buffers[view].pool = plan.buffers[id].pool;
    id = view;
  }
  return mirror(id, target);
}

/// Bodies run on some paths only: what they read is brought to the CPU before.
void PlanBuilder::fetchForBodies(Operation *op) {
  op->walk([&](Operation *inner) {
    auto segment = dyn_cast<tsr::SegmentOp>(inner);
    for (Value v : inner->getOperands())
      if (auto it = buffers.find(v); it != buffers.end() && !reachesCpu(it->second))
        if (!segment || segment.getDevice() != deviceOf(it->second))
          bufferOf(v);
  });
}

/// Results of earlier segments that others read while this one is under way, for
/// which they would have to wait for it too: they get copies before the launch.
LogicalResult PlanBuilder::fetchForOthers(tsr::SegmentOp op) {
  auto isOfDevice = [&](tsr::SegmentOp other) { return other && other.getDevice() == op.getDevice(); };
  llvm::SetVector<std::pair<Value, tsr::SegmentOp>> wanted; ///< by whom; null: the CPU
  for (Operation *next = op->getNextNode(); next && next->getNextNode(); next = next->getNextNode()) {
    auto reader = dyn_cast<tsr::SegmentOp>(next);
    if (isOfDevice(reader) || isView(next))
      continue;
    bool waits = false;
    SmallVector<std::pair<Value, tsr::SegmentOp>> reads;
    next->walk([&](Operation *inner) {
      for (Value read : inner->getOperands()) {
        Value v = shown(read);
        auto from = v.getDefiningOp<tsr::SegmentOp>();
        if (!isOfDevice(from) || from->getBlock() != op->getBlock())
          continue;
        if (from == op || op->isBeforeInBlock(from))
          waits = true;
        else
          reads.push_back({v, reader});
      }
    });
    if (waits) // from here on everything can be read
      break;
    wanted.insert_range(reads);
  }
  for (auto [v, reader] : wanted) {
    if (reader && failed(declareDevice(reader)))
      return failure();
    uint32_t id = residence(v), target = reader ? reader.getDevice() : 0;
    if (deviceOf(id) == op.getDevice() && !(target && inFlight[target]))
      mirror(id, target);
  }
  return success();
}

// --- launches ------------------------------------------------------------------------

LogicalResult PlanBuilder::declareDevice(tsr::SegmentOp op) {
  uint32_t number = op.getDevice();
  if (plan.devices.size() <= number)
    plan.devices.resize(number + 1);
  if (inFlight.size() <= number)
    inFlight.resize(number + 1);
  PlanDevice &entry = plan.devices[number];
  if (entry.name.empty())
    entry = {op.getUnit().str(), op.getKind().value_or("segments").str()};
  if (entry.name != op.getUnit())
    return op.emitError() << "calls device " << number << " '" << op.getUnit() << "', another segment calls it '"
                          << entry.name << "'";
  return success();
}

/// The model's nodes that a segment came from. What its tool chain gave back
/// may have lost their names, so its kernels cannot tell.
static std::string nodesOf(Location loc) {
  constexpr size_t maxNames = 12;
  SmallVector<StringRef> names;
  std::function<void(Location)> visit = [&](Location l) {
    if (auto fused = dyn_cast<FusedLoc>(l))
      for (Location part : fused.getLocations())
        visit(part);
    else if (auto name = dyn_cast<NameLoc>(l); name && !llvm::is_contained(names, name.getName().getValue()))
      names.push_back(name.getName().getValue());
  };
  visit(loc);
  std::string text;
  for (StringRef name : ArrayRef<StringRef>(names).take_front(maxNames))
    text += (text.empty() ? ": " : ", ") + name.str();
  return names.size() > maxNames ? text + ", ..." : text;
}

LogicalResult PlanBuilder::segment(tsr::SegmentOp op) {
  if (failed(declareDevice(op)))
    return failure();
  if (failed(fetchForOthers(op)))
    return failure();
  uint32_t number = op.getDevice();
  for (auto [arg, v] : llvm::zip(op.getBodyBlock()->getArguments(), op.getInputs())) {
    auto id = onDevice(v, op);
    if (failed(id))
      return failure();
    buffers[arg] = *id;
  }
  std::string name = (op.getUnit() + "." + Twine(launches)).str();
  PlanCommand launch{.kind = CommandKind::Launch, .a = number};
  if (ArrayRef<char> bytes = op.getArtefactBytes(); !bytes.empty()) {
    launch.c = plan.artefacts.size();
    plan.artefacts.push_back({name, bytes.data(), bytes.size()});
  }
  launch.d = string(name + nodesOf(op.getLoc()));
  launch.e = launches;
  uint32_t at = command(launch), firstOwn = plan.buffers.size();
  device = number;
  LogicalResult built = block(*op.getBodyBlock());
  device = 0;
  if (failed(built))
    return failure();
  if (!rangeFault.empty())
    return op.emitError("segment on '") << op.getUnit() << "' " << rangeFault;
  for (auto [result, v] : llvm::zip(op.getResults(), op.getBodyBlock()->getTerminator()->getOperands())) {
    uint32_t id = buffers[result] = residence(v);
    bool isOwn = rootOf(id) >= firstOwn; // made by this range
    if (op.getZeroCopy() && isOwn && deviceOf(id) == number && !reachesCpu(id))
      moveToPool(id, poolOf(number, /*shared=*/true));
  }
  plan.commands[at].b = plan.commands.size() - at - 1;
  if (!plan.commands[at].b) { // views alone
    plan.commands.pop_back();
    if (launch.c != kNone)
      plan.artefacts.pop_back();
    return success();
  }
  if (isVulkan(number) && target && failed(addShaders(op, at)))
    return failure();
  ++launches;
  inFlight[number] = true;
  return success();
}

} // namespace tessera
