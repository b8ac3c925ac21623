#include "targets/Cpu/Kernels/IntegerPairs.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cstring>

using namespace mlir;

namespace tessera::cpu {

Value lowHalf(KernelEmitter &e, Value v) {
  Value sixteen = e.intConst(v.getType(), 16);
  return arith::ShRSIOp::create(e.b, e.loc, arith::ShLIOp::create(e.b, e.loc, v, sixteen), sixteen);
}

static Value high(KernelEmitter &e, Value v) {
  return arith::ShRSIOp::create(e.b, e.loc, v, e.intConst(v.getType(), 16));
}

Value multiplyPairs(KernelEmitter &e, Value a, Value c, Value acc) {
  auto type = dyn_cast<VectorType>(acc.getType());
  if (type && e.isa.arch == Arch::X86_64) {
    StringRef name;
    switch (type.getNumElements()) {
    case 4:
      name = "llvm.x86.sse2.pmadd.wd";
      break;
    case 8:
      name = "llvm.x86.avx2.pmadd.wd";
      break;
    case 16:
      name = "llvm.x86.avx512.pmaddw.d.512";
      break;
    }
    if (!name.empty()) {
      auto halves = VectorType::get({2 * type.getNumElements()}, e.b.getI16Type());
      Value x = vector::BitCastOp::create(e.b, e.loc, halves, a);
      Value y = vector::BitCastOp::create(e.b, e.loc, halves, c);
      Value sum = LLVM::CallIntrinsicOp::create(e.b, e.loc, type, e.b.getStringAttr(name), ValueRange{x, y}).getResult(0);
      return arith::AddIOp::create(e.b, e.loc, acc, sum);
    }
  }
  Value sum = arith::MulIOp::create(e.b, e.loc, lowHalf(e, a), lowHalf(e, c));
  acc = arith::AddIOp::create(e.b, e.loc, acc, sum);
  return arith::AddIOp::create(e.b, e.loc, acc, arith::MulIOp::create(e.b, e.loc, high(e, a), high(e, c)));
}

Packed packPairs(ElementsAttr value, int64_t groups, int64_t words, int64_t columns,
                 llvm::function_ref<int64_t(int64_t, int64_t, int64_t, int64_t)> source,
                 llvm::function_ref<int64_t(int64_t, int64_t)> zeroOf) {
  bool isUnsigned = value.getElementType().isUnsignedInteger();
  SmallVector<char> storage;
  ArrayRef<char> bytes = onnx::getRawBytes(value, storage).value_or(ArrayRef<char>{});
  int64_t panels = (columns + kPanel - 1) / kPanel;
  Packed packed;
  packed.bytes.assign(std::max<int64_t>(groups * panels * words * kPanel * 4, 1), 0);
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t n = 0; n < columns && !bytes.empty(); ++n) {
      int64_t zero = zeroOf(g, n);
      for (int64_t k = 0; k < words; ++k)
        for (int64_t half = 0; half < 2; ++half) {
          int64_t from = source(g, k, half, n);
          if (from < 0)
            continue;
          int64_t v = isUnsigned ? static_cast<uint8_t>(bytes[from]) : static_cast<int8_t>(bytes[from]);
          int16_t number = static_cast<int16_t>(v - zero);
          int64_t at = (((g * panels + n / kPanel) * words + k) * kPanel + n % kPanel) * 2 + half;
          std::memcpy(packed.bytes.data() + at * 2, &number, 2);
        }
    }
  return packed;
}

Value widenTo16(KernelEmitter &e, Value v, Type element) {
  Type to = KernelEmitter::sameShape(v, e.b.getI16Type());
  if (KernelEmitter::isUnsigned(element))
    return arith::ExtUIOp::create(e.b, e.loc, to, v);
  return arith::ExtSIOp::create(e.b, e.loc, to, v);
}

void emitWiden(KernelEmitter &e, const TensorRef &from, Value offset, Value stride, Value count, Value zero, Value to,
               Value at) {
  Type i16 = e.b.getI16Type();
  TensorRef target{to, i16, {}, {}};
  auto put = [&](Value i, Lanes lanes, Value mask) {
    Value v = lanes.isScalar() ? e.loadElement(from, e.add(offset, e.mul(i, stride)))
                               : e.loadLanes(from, e.add(offset, i), lanes, mask);
    v = widenTo16(e, v, from.element);
    if (zero)
      v = arith::SubIOp::create(e.b, e.loc, v, e.splat(zero, lanes));
    e.storeLanes(target, e.add(at, i), v, mask);
  };
  if (KernelEmitter::constantOf(stride) == 1)
    e.vectorLoop(count, 16, 2, put);
  else
    e.forLoop(count, [&](Value i) { put(i, {}, {}); });
}

void emitClear16(KernelEmitter &e, Value to, Value count) {
  TensorRef target{to, e.b.getI16Type(), {}, {}};
  e.vectorLoop(count, 16, 4, [&](Value i, Lanes lanes, Value mask) {
    e.storeLanes(target, i, e.intConst(KernelEmitter::withLanes(e.b.getI16Type(), lanes), 0), mask);
  });
}

} // namespace tessera::cpu
