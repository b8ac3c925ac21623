// The scores of one row of a tree ensemble, after its trees were summed.
#ifndef TESSERA_TARGETS_CPU_KERNELS_TREESCORES_H
#define TESSERA_TARGETS_CPU_KERNELS_TREESCORES_H

#include "targets/Cpu/KernelEmitter.h"

namespace tessera::cpu {

/// Post transforms by their numbers in ai.onnx.ml 5.
enum class PostTransform : int64_t { None, Softmax, Logistic, SoftmaxZero, Probit };

/// `count` doubles at `ptr`.
class TreeScores {
public:
  TreeScores(KernelEmitter &e, mlir::Value ptr, mlir::Value count) : e(e), ptr(ptr), count(count) {}

  mlir::Value get(mlir::Value k) { return e.rawLoad(e.f64(), e.gep(ptr, e.f64(), k)); }
  void set(mlir::Value k, mlir::Value score) { e.rawStore(score, e.gep(ptr, e.f64(), k)); }
  /// The first class of the greatest score.
  mlir::Value best();
  /// Two classes of which the trees score one; gives the class. `positive`: no weight is negative.
  mlir::Value splitBinary(PostTransform post, bool positive);
  void transform(PostTransform post);

private:
  mlir::Value d(double x) { return e.floatConst(e.f64(), x); }
  mlir::Value probit(mlir::Value x);
  void softmax(bool keepsZeros);

  KernelEmitter &e;
  mlir::Value ptr, count;
};

} // namespace tessera::cpu
#endif
