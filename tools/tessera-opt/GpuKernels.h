// `tessera-opt --gpu-kernels`: a model's dispatches as shaders for a GPU.
#ifndef TESSERA_TOOLS_TESSERA_OPT_GPUKERNELS_H
#define TESSERA_TOOLS_TESSERA_OPT_GPUKERNELS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

/// Arguments after `--gpu-kernels`: `DIR [--features WORD,...] [--dim
/// NAME=VALUE]...
/// [--workgroup N] [--buffer BYTES] MODEL.onnx`. Writes DIR/kernels.json
/// (buffers, kernels in the order in which they run, reasons of refusals),
/// DIR/kN.spv and DIR/bN.bin. Returns the exit code: 0 if every dispatch has a
/// kernel, 1 if not, 2 for wrong arguments.
int writeGpuKernels(llvm::ArrayRef<llvm::StringRef> args);

#endif
