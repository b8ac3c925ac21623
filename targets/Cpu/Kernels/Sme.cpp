#include "targets/Cpu/Kernels/Sme.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tessera::cpu::sme {

static Value call(KernelEmitter &e, Type result, StringRef name, ValueRange args) {
  auto op = LLVM::CallIntrinsicOp::create(e.b, e.loc, result, e.b.getStringAttr(name), args);
  return op.getResult(0);
}

static void run(KernelEmitter &e, StringRef name, ValueRange args) {
  LLVM::CallIntrinsicOp::create(e.b, e.loc, e.b.getStringAttr(name), args);
}

static Value number(KernelEmitter &e, unsigned n) { return e.intConst(e.i32(), n); }
static Value slice(KernelEmitter &e, Value row) { return arith::TruncIOp::create(e.b, e.loc, e.i32(), row); }
static Value allLanes(KernelEmitter &e) { return e.intConst(KernelEmitter::withLanes(e.i1(), lanes), 1); }

static Type fourVectors(KernelEmitter &e) {
  return LLVM::LLVMStructType::getLiteral(e.b.getContext(), SmallVector<Type>(4, vectorType(e)));
}

static SmallVector<Value> parts(KernelEmitter &e, Value four) {
  SmallVector<Value> all;
  for (int64_t i = 0; i < 4; ++i)
    all.push_back(LLVM::ExtractValueOp::create(e.b, e.loc, four, i));
  return all;
}

/// The predicate of multi-vector accesses: all lanes.
static Value allLanesCounted(KernelEmitter &e) {
  Type type = LLVM::LLVMTargetExtType::get(e.b.getContext(), "aarch64.svcount", {}, {});
  return call(e, type, "llvm.aarch64.sve.ptrue.c32", {});
}

void zero(KernelEmitter &e) { run(e, "llvm.aarch64.sme.zero", number(e, 255)); }

void outerProduct(KernelEmitter &e, unsigned tile, Value a, Value c) {
  run(e, "llvm.aarch64.sme.mopa.nxv4f32", {number(e, tile), allLanes(e), allLanes(e), a, c});
}

void loadRow(KernelEmitter &e, Value mask, Value ptr, unsigned tile, Value row) {
  run(e, "llvm.aarch64.sme.ld1w.horiz", {mask, ptr, number(e, tile), slice(e, row)});
}

Value readRow(KernelEmitter &e, unsigned tile, Value row) {
  Value none = e.floatConst(vectorType(e), 0);
  return call(e, vectorType(e), "llvm.aarch64.sme.read.horiz.nxv4f32", {none, allLanes(e), number(e, tile), slice(e, row)});
}

SmallVector<Value> readRows(KernelEmitter &e, unsigned tile, Value first) {
  return parts(e, call(e, fourVectors(e), "llvm.aarch64.sme.read.hor.vg4.nxv4f32", {number(e, tile), slice(e, first)}));
}

SmallVector<Value> readColumns(KernelEmitter &e, unsigned tile, Value first) {
  return parts(e, call(e, fourVectors(e), "llvm.aarch64.sme.read.ver.vg4.nxv4f32", {number(e, tile), slice(e, first)}));
}

Value opaque(KernelEmitter &e, Value v) {
  return LLVM::InlineAsmOp::create(e.b, e.loc, v.getType(), ValueRange{v}, "", "=r,0", /*has_side_effects=*/false,
                                   /*is_align_stack=*/false, LLVM::TailCallKind::None, LLVM::AsmDialectAttr{}, ArrayAttr{})
      .getResult(0);
}

SmallVector<Value> loadFour(KernelEmitter &e, Value ptr) {
  return parts(e, call(e, fourVectors(e), "llvm.aarch64.sve.ld1.pn.x4.nxv4f32", {allLanesCounted(e), ptr}));
}

void storeFour(KernelEmitter &e, ValueRange four, Value ptr) {
  SmallVector<Value> args(four);
  args.append({allLanesCounted(e), ptr});
  run(e, "llvm.aarch64.sve.st1.pn.x4.nxv4f32", args);
}

} // namespace tessera::cpu::sme
