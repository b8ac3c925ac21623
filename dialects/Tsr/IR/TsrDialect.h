// The tsr dialect; see TsrOps.td.
#ifndef TESSERA_DIALECTS_TSR_IR_TSRDIALECT_H
#define TESSERA_DIALECTS_TSR_IR_TSRDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Tsr/IR/TsrDialect.h.inc"
#include "dialects/Tsr/IR/TsrEnums.h.inc"

namespace tessera::tsr {
/// Devices that a bundle may name, the CPU among them.
inline constexpr int64_t maxDevices = 8;
} // namespace tessera::tsr

#define GET_ATTRDEF_CLASSES
#include "dialects/Tsr/IR/TsrAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Tsr/IR/TsrOps.h.inc"

#endif
