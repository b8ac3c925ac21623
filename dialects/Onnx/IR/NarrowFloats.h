// Narrow floats to double, exactly: weights of whole models pass here.
#ifndef TESSERA_DIALECTS_ONNX_IR_NARROWFLOATS_H
#define TESSERA_DIALECTS_ONNX_IR_NARROWFLOATS_H

#include "llvm/ADT/bit.h"

#include <cstdint>

namespace tessera::onnx {

inline double fromF32(uint32_t bits) { return llvm::bit_cast<float>(bits); }

inline double fromBf16(uint16_t bits) { return fromF32(static_cast<uint32_t>(bits) << 16); }

/// NaNs stay NaNs, with their sign.
inline double fromF16(uint16_t bits) {
  uint64_t sign = static_cast<uint64_t>(bits & 0x8000) << 48, fraction = bits & 0x3ff;
  unsigned exponent = bits >> 10 & 0x1f;
  if (exponent == 0) { // fraction * 2^-24
    double value = static_cast<double>(fraction) / 16777216;
    return sign ? -value : value;
  }
  uint64_t wide = exponent == 0x1f ? 0x7ff : exponent - 15 + 1023;
  return llvm::bit_cast<double>(sign | wide << 52 | fraction << 42);
}

} // namespace tessera::onnx
#endif
