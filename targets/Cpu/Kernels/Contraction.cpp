// Matrix products: MatMul, Gemm, MatMulInteger.
//
// All are brought to the form, for every index of the batch axes,
//
//     Y[m, n] = finish( sum over k of  A[m, k] * B[k, n] )
//
// and computed in register tiles (RegisterTile.h). B comes
//  * as panels made at compile time, when it is constant;
//  * as it lies in memory, when its columns are contiguous;
//  * else as panels that the kernel makes first, in scratch memory.
// Batch axes that only A has are counted as further rows of one product.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "targets/Cpu/Kernels/IntegerPairs.h"
#include "targets/Cpu/Kernels/OuterProduct.h"

using namespace mlir;

namespace tessera::cpu {
namespace {

enum class Family { MatMul, Gemm, Integer };

Family familyOf(Operation *root) {
  StringRef name = root->getName().getStringRef();
  return name == "onnx.Gemm" ? Family::Gemm : name == "onnx.MatMulInteger" ? Family::Integer : Family::MatMul;
}

RankedTensorType tensorType(Operation *root, unsigned position) {
  Value v = onnx::getOptionalOperand(root, position);
  return v ? dyn_cast<RankedTensorType>(v.getType()) : RankedTensorType{};
}

bool transposes(Operation *root, unsigned operand) {
  return familyOf(root) == Family::Gemm && onnx::getInt(root, operand ? "transB" : "transA") != 0;
}

/// Matrix axes of an operand: how many, and which is the reduction's.
struct MatrixAxes {
  int outer, reduction; ///< axis number, -1: the operand is a vector
};

MatrixAxes axesOf(Operation *root, unsigned operand) {
  int rank = tensorType(root, operand).getRank();
  if (rank == 1)
    return {-1, 0};
  bool reductionLast = (operand == 0) != transposes(root, operand);
  return reductionLast ? MatrixAxes{rank - 2, rank - 1} : MatrixAxes{rank - 1, rank - 2};
}

bool multiplies(Type t) {
  if (auto i = dyn_cast<IntegerType>(t))
    return i.getWidth() == 32 || i.getWidth() == 64;
  return t.isF32() || t.isF64() || t.isF16() || t.isBF16();
}

/// Packing of B: number of matrices, reduction length, columns.
struct Packing {
  int64_t batches, steps, columns;
};

std::optional<Packing> packingOf(tsr::DispatchOp op, unsigned operand) {
  Operation *root = op.getRootOp();
  if (dispatchOperand(op, 1) != static_cast<int>(operand) || !dispatchConstant(op, operand) ||
      dispatchOperand(op, 0) == static_cast<int>(operand))
    return std::nullopt;
  // An operand that the epilogue reads as well stays as it is.
  if (!llvm::hasSingleElement(op.getBodyBlock()->getArgument(operand).getUses()))
    return std::nullopt;
  auto type = tensorType(root, 1);
  MatrixAxes axes = axesOf(root, 1);
  Packing p{1, type.getDimSize(axes.reduction), axes.outer < 0 ? 1 : type.getDimSize(axes.outer)};
  for (int i = 0; i + 2 < type.getRank(); ++i)
    p.batches *= type.getDimSize(i);
  return p;
}

/// Whether 8-bit products go by pairs (IntegerPairs.h): B and its zero point
/// are constant, one zero point a column or one for all; A has one for all or
/// one a row.
bool usesPairs(tsr::DispatchOp op) {
  Operation *root = op.getRootOp();
  int b = dispatchOperand(op, 1);
  if (familyOf(root) != Family::Integer || b < 0 || !packingOf(op, b) || packingOf(op, b)->batches != 1)
    return false;
  if (auto zero = tensorType(root, 3)) {
    int operand = dispatchOperand(op, 3);
    if (operand < 0 || !dispatchConstant(op, operand) || zero.getRank() > 1)
      return false;
  }
  auto zero = tensorType(root, 2);
  return (!zero || zero.getRank() <= 1) && tensorType(root, 0).getRank() >= 2;
}

/// Whether workgroups share out the columns of a product by pairs, each with its
/// own widened A: a small A, and weights that every share of rows would read.
bool sharesColumns(tsr::DispatchOp op) {
  int64_t size = 1, outer = 1;
  ArrayRef<int64_t> dims = op.getDimsOf(dispatchOperand(op, 0));
  for (auto [axis, d] : llvm::enumerate(dims)) {
    size = d < 0 || size < 0 ? -1 : size * d;
    outer *= axis + 2 < dims.size() ? d : 1;
  }
  return size >= 0 && size <= 1 << 16 && outer == 1 && packingOf(op, dispatchOperand(op, 1))->columns >= 256;
}

class Contraction : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Contraction; }
  LogicalResult match(Operation *root, Reasons &reasons) const override;
  bool fusesEpilogue(Operation *) const override { return true; }
  bool packs(tsr::DispatchOp op, unsigned operand, Arch) const override { return packingOf(op, operand).has_value(); }
  std::optional<Packed> pack(tsr::DispatchOp op, unsigned operand, ElementsAttr value, Arch arch) const override;
  onnx::Sym scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const override;
  onnx::Sym workgroups(tsr::DispatchOp op, const DispatchSizes &sizes) const override;
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override;
  bool streams(tsr::DispatchOp op, const Isa &isa) const override;
  bool flushesDenormals(Operation *root) const override {
    return isa<FloatType>(tensorType(root, 0).getElementType());
  }

private:
  /// Scratch for what the kernel makes of its operands before it multiplies.
  onnx::Sym panelBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const;
};

LogicalResult Contraction::match(Operation *root, Reasons &reasons) const {
  Family family = familyOf(root);
  auto a = tensorType(root, 0), b = tensorType(root, 1);
  if (!a || !b)
    return reasons.no() << "operands of unknown rank";
  if (a.getRank() < 1 || b.getRank() < 1)
    return reasons.no() << "operand of rank 0";
  Type element = a.getElementType();
  if (family == Family::Integer) {
    for (auto type : {a, b})
      if (!type.getElementType().isInteger(8))
        return reasons.no() << "element type " << onnx::getTypeName(type.getElementType()) << " of MatMulInteger";
    for (unsigned z : {2u, 3u}) {
      auto zero = tensorType(root, z);
      if (!zero)
        continue;
      int64_t rank = (z == 2 ? a : b).getRank();
      if (zero.getRank() > 1 && zero.getRank() != rank)
        (void)(reasons.no() << "zero point of rank " << zero.getRank() << " for an operand of rank " << rank);
      if (zero.getRank() > 1 && rank < 2)
        (void)(reasons.no() << "zero point of rank " << zero.getRank() << " for a vector");
    }
  } else {
    if (!multiplies(element))
      (void)(reasons.no() << "element type " << onnx::getTypeName(element) << " of a matrix product");
    if (b.getElementType() != element)
      (void)(reasons.no() << "element types differ: " << onnx::getTypeName(element) << " and "
                          << onnx::getTypeName(b.getElementType()));
  }
  if (family == Family::Gemm) {
    if (a.getRank() != 2 || b.getRank() != 2)
      (void)(reasons.no() << "Gemm operands of rank " << a.getRank() << " and " << b.getRank());
    if (auto c = tensorType(root, 2); c && c.getRank() > 2)
      (void)(reasons.no() << "Gemm operand C of rank " << c.getRank());
    double alpha = onnx::getFloat(root, "alpha", 1), beta = onnx::getFloat(root, "beta", 1);
    if (isa<IntegerType>(element) && (alpha != std::trunc(alpha) || beta != std::trunc(beta)))
      (void)(reasons.no() << "alpha " << alpha << ", beta " << beta << " of an integer Gemm");
  }
  if (auto y = dyn_cast<RankedTensorType>(root->getResult(0).getType()); !y)
    (void)(reasons.no() << "result of unknown rank");
  return success(reasons.empty());
}

std::optional<Packed> Contraction::pack(tsr::DispatchOp op, unsigned operand, ElementsAttr value, Arch) const {
  auto p = packingOf(op, operand);
  if (!p)
    return std::nullopt;
  if (usesPairs(op)) {
    SmallVector<int64_t> zeros;
    if (int operand = dispatchOperand(op, 3); operand >= 0)
      zeros = onnx::getInts(dispatchConstant(op, operand)).value();
    return packPairs(
        value, 1, (p->steps + 1) / 2, p->columns,
        [&](int64_t, int64_t word, int64_t half, int64_t n) {
          int64_t k = 2 * word + half;
          return k < p->steps ? k * p->columns + n : -1;
        },
        [&](int64_t, int64_t n) { return zeros.empty() ? 0 : zeros.size() == 1 ? zeros[0] : zeros[n]; });
  }
  bool columnsFirst = transposes(op.getRootOp(), 1);
  return packPanels(value, p->batches, p->steps, p->columns, [&](int64_t g, int64_t k, int64_t n) {
    return g * p->steps * p->columns + (columnsFirst ? n * p->steps + k : k * p->columns + n);
  });
}

/// Whether the kernel packs B itself: not constant and no contiguous columns.
bool packsAtRunTime(tsr::DispatchOp op) {
  int operand = dispatchOperand(op, 1);
  if (operand < 0 || packingOf(op, operand))
    return false;
  MatrixAxes axes = axesOf(op.getRootOp(), 1);
  if (axes.outer < 0)
    return false; // a vector: columns of one lane
  if (op.getLayoutOf(operand) == tsr::Layout::ChannelsLast)
    return true;
  return transposes(op.getRootOp(), 1);
}

/// Whether the product can be one of outer products: f32, rows and columns.
/// A few rows only would leave most of every outer product unused.
bool isOuterProduct(tsr::DispatchOp op) {
  Operation *root = op.getRootOp();
  auto a = tensorType(root, 0), b = tensorType(root, 1);
  MatrixAxes aAxes = axesOf(root, 0), bAxes = axesOf(root, 1);
  if (!a.getElementType().isF32() || !b.getElementType().isF32() || aAxes.outer < 0 || bAxes.outer < 0)
    return false;
  int aOperand = dispatchOperand(op, 0), bOperand = dispatchOperand(op, 1);
  if (aOperand < 0 || bOperand < 0)
    return false;
  auto atLeast = [](int64_t size, int64_t least) { return size < 0 || size >= least; };
  unsigned rank = cast<RankedTensorType>(root->getResult(0).getType()).getRank();
  bool fewRows = a.getRank() == 2 && !atLeast(op.getDimsOf(aOperand)[aAxes.outer], 4);
  return !fewRows && atLeast(op.getDimsOf(bOperand)[bAxes.outer], 8) && epilogueStreams(op, rank - 1, 2u);
}

bool Contraction::streams(tsr::DispatchOp op, const Isa &) const { return isOuterProduct(op); }

onnx::Sym Contraction::scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const {
  onnx::Sym panels = panelBytes(op, sizes);
  if (sizes.arch != Arch::AArch64 || !isOuterProduct(op))
    return panels;
  onnx::SymContext &c = sizes.ctx;
  onnx::Sym rows = packedRowsBytes(c, sizes.operands[dispatchOperand(op, 0)][axesOf(op.getRootOp(), 0).reduction]);
  if (onnx::Sym parts = workgroups(op, sizes))
    rows = c.mul(rows, parts);
  return panels ? c.add(panels, rows) : rows;
}

onnx::Sym Contraction::panelBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const {
  if (usesPairs(op)) { // A as 16-bit numbers, an even count a row
    onnx::SymContext &c = sizes.ctx;
    onnx::Sym rows = c.constant(1), steps = sizes.operands[dispatchOperand(op, 0)].back();
    for (onnx::Sym d : ArrayRef<onnx::Sym>(sizes.operands[dispatchOperand(op, 0)]).drop_back(1))
      rows = c.mul(rows, d);
    onnx::Sym bytes = c.add(c.mul(rows, c.mul(c.ceilDiv(steps, c.constant(2)), c.constant(4))), c.constant(64));
    onnx::Sym parts = sharesColumns(op) ? workgroups(op, sizes) : nullptr;
    return parts ? c.mul(bytes, parts) : bytes;
  }
  if (!packsAtRunTime(op))
    return nullptr;
  unsigned operand = dispatchOperand(op, 1);
  MatrixAxes axes = axesOf(op.getRootOp(), 1);
  onnx::SymContext &c = sizes.ctx;
  Type element = panelElement(tensorType(op.getRootOp(), 1).getElementType());
  return c.product({c.ceilDiv(sizes.operands[operand][axes.outer], c.constant(kPanel)),
                    sizes.operands[operand][axes.reduction],
                    c.constant(kPanel * KernelEmitter::storageBits(element) / 8)});
}

// --- emission ------------------------------------------------------------------

/// What a kernel multiplies, with everything that depends on the operator resolved.
struct Product {
  Operation *root;
  const TensorRef *a, *b;
  MatrixAxes aAxes, bAxes;
  std::optional<Packing> packing;
  unsigned rank;      ///< of the result
  int rowAxis, columnAxis; ///< of the result, -1: absent
  unsigned batchAxes; ///< leading axes of the result
  bool flat;          ///< batch axes are counted as rows
};

/// Rows of A and of the result can be counted through batch and row axes.
bool batchFlattens(tsr::DispatchOp op, unsigned batchAxes, unsigned rank) {
  Operation *root = op.getRootOp();
  int a = dispatchOperand(op, 0), b = dispatchOperand(op, 1);
  auto aType = tensorType(root, 0), bType = tensorType(root, 1);
  if (a < 0 || b < 0 || familyOf(root) == Family::Gemm || aType.getRank() < 2 || bType.getRank() > 2)
    return false;
  if (tensorType(root, 2) && tensorType(root, 2).getRank() > 0 && familyOf(root) == Family::Integer) {
    auto zero = tensorType(root, 2);
    if (!zero.hasStaticShape() || zero.getNumElements() != 1)
      return false; // a zero point a row
  }
  if (op.getLayoutOf(a) != tsr::Layout::RowMajor)
    return false;
  return axesFlatten(op, rank, 0, batchAxes);
}

SmallVector<Value> unflattenIndex(KernelEmitter &e, Value number, ArrayRef<Value> dims) {
  SmallVector<Value> index(dims.size());
  for (int axis = static_cast<int>(dims.size()) - 1; axis >= 0; --axis) {
    index[axis] = axis ? e.remU(number, dims[axis]) : number;
    number = axis ? e.divU(number, dims[axis]) : number;
  }
  return index;
}

/// Offset of matrix `index` (batch index of the result) in operand `t`.
Value batchOffset(KernelEmitter &e, const TensorRef &t, ArrayRef<Value> index, ArrayRef<Value> sizes) {
  Value offset = e.idx(0);
  if (t.rank() < 3)
    return offset;
  unsigned own = t.rank() - 2, shift = index.size() - own;
  for (unsigned axis = 0; axis < own; ++axis) {
    Value dim = t.dims[axis], stride = t.strides[axis];
    auto size = KernelEmitter::constantOf(dim);
    if (size == 1)
      continue;
    if (!size && dim != sizes[axis + shift])
      stride = e.select(e.eq(dim, e.idx(1)), e.idx(0), stride);
    offset = e.add(offset, e.mul(index[axis + shift], stride));
  }
  return offset;
}

LogicalResult Contraction::emit(tsr::DispatchOp op, KernelEmitter &e) const {
  Fusion fusion(op, e);
  Operation *root = op.getRootOp();
  Family family = familyOf(root);
  Product p{root, fusion.plainOperand(0), fusion.plainOperand(1), axesOf(root, 0), axesOf(root, 1), {}, 0, -1, -1, 0, false};
  if (!p.a || !p.b)
    return root->emitError("matrix operand is not an operand of the kernel");
  unsigned bOperand = dispatchOperand(op, 1);
  p.packing = packingOf(op, bOperand);
  const TensorRef &y = e.outputs[0];
  p.rank = cast<RankedTensorType>(root->getResult(0).getType()).getRank();
  p.columnAxis = p.bAxes.outer < 0 ? -1 : static_cast<int>(p.rank) - 1;
  p.rowAxis = p.aAxes.outer < 0 ? -1 : static_cast<int>(p.rank) - (p.columnAxis < 0 ? 1 : 2);
  p.batchAxes = p.rank - (p.columnAxis >= 0) - (p.rowAxis >= 0);
  p.flat = p.batchAxes > 0 && p.rowAxis >= 0 && batchFlattens(op, p.batchAxes, p.rank);

  Type element = p.a->element;
  Type acc = family == Family::Integer ? e.i32() : accumulatorOf(element);
  Type bElement = p.packing ? panelElement(p.b->element) : p.b->element;
  Value one = e.idx(1);
  Value steps = p.a->dims[p.aAxes.reduction];
  Value rows = p.aAxes.outer < 0 ? one : p.a->dims[p.aAxes.outer];
  Value columns = p.bAxes.outer < 0 ? one : (p.packing ? e.idx(p.packing->columns) : p.b->dims[p.bAxes.outer]);
  if (p.packing)
    steps = e.idx(p.packing->steps);
  Value aRowStep = p.aAxes.outer < 0 ? e.idx(0) : p.a->strides[p.aAxes.outer];
  Value aStep = p.a->strides[p.aAxes.reduction];

  // Panels made by the kernel.
  bool packsHere = !p.packing && p.bAxes.outer >= 0 && KernelEmitter::constantOf(p.b->strides[p.bAxes.outer]) != 1;
  if (packsHere && !e.scratch)
    return root->emitError("kernel has no scratch memory for its panels");

  SmallVector<Value> batchDims(y.dims.begin(), y.dims.begin() + p.batchAxes);
  Value batches = e.product(batchDims);
  if (p.flat) {
    rows = e.mul(rows, batches);
    batches = one;
  }
  unsigned flat = p.flat ? flatAxis(op, 0, p.batchAxes) : 0;

  Lanes lanes = p.columnAxis < 0 ? Lanes{} : columnLanes(e.isa, acc);
  TileSpace space{rows, columns, acc, lanes};
  space.singleRowVariant = p.packing.has_value();
  auto knownColumns = KernelEmitter::constantOf(columns);
  bool manyBatches = KernelEmitter::constantOf(batches) != 1;
  if (!manyBatches && !packsHere)
    space.split = knownColumns && *knownColumns >= 256 ? Split::Columns : Split::Rows;
  if (auto k = KernelEmitter::constantOf(steps)) // a chunk of A stays in the second-level cache
    space.rowChunk = std::max<int64_t>(96, 384 * 1024 / std::max<int64_t>(*k * 4, 1));
  if (p.packing && p.packing->batches == 1 && p.packing->steps * p.packing->columns > 256 * 1024)
    space.rowChunk = std::max<int64_t>(space.rowChunk, 256); // long panels should not be fetched too often

  double alpha = 1, beta = 1;
  const TensorRef *c = nullptr, *aZero = nullptr, *bZero = nullptr;
  if (family == Family::Gemm) {
    alpha = onnx::getFloat(root, "alpha", 1), beta = onnx::getFloat(root, "beta", 1);
    if (onnx::getOptionalOperand(root, 2) && !(c = fusion.plainOperand(2)))
      return root->emitError("Gemm operand C is not an operand of the kernel");
  } else if (family == Family::Integer) {
    for (auto [position, zero] : {std::pair{2u, &aZero}, {3u, &bZero}})
      if (onnx::getOptionalOperand(root, position) && !(*zero = fusion.plainOperand(position)))
        return root->emitError("zero point is not an operand of the kernel");
  }

  // 8-bit A as pairs of 16-bit numbers in scratch memory, all batches' rows.
  TensorRef words;
  Value firstRow = e.idx(0);
  bool pairs = usesPairs(op);
  space.separateProduct = pairs;
  if (pairs) {
    if (!e.scratch)
      return root->emitError("kernel has no scratch memory for its pairs");
    TensorRef a = *p.a;
    Value wordCount = e.divU(e.add(steps, 1), e.idx(2)), rowLength = e.mul(wordCount, 2);
    Value total = e.product(ArrayRef<Value>(a.dims).drop_back(1));
    SmallVector<Value> outer(a.dims.begin(), a.dims.end() - 1);
    std::pair<Value, Value> share{e.idx(0), total};
    bool byColumns = sharesColumns(op);
    Value widened = e.scratch;
    if (byColumns) {
      widened = e.gep(widened, e.i32(), e.mul(e.workgroup, e.mul(total, wordCount)));
    } else if (KernelEmitter::constantOf(batches) == 1) { // each workgroup widens the rows that it multiplies
      share = workgroupShare(e, rows);
      firstRow = share.first;
      rows = space.rows = e.sub(share.second, share.first);
    }
    e.forLoop(share.first, share.second, e.idx(1), [&](Value number) {
      SmallVector<Value> index = unflattenIndex(e, number, outer);
      index.push_back(e.idx(0));
      Value zero;
      if (aZero) {
        Value at = aZero->rank() == 0 ? e.idx(0) : e.select(e.eq(aZero->dims[0], one), e.idx(0), index[p.aAxes.outer]);
        zero = widenTo16(e, e.loadElement(*aZero, at), aZero->element);
      }
      Value to = e.mul(number, rowLength);
      emitWiden(e, a, e.offsetOf(a, index), a.strides.back(), steps, zero, widened, to);
      e.ifThen(e.lt(steps, rowLength), [&] {
        e.storeElement({widened, e.b.getI16Type(), {}, {}}, e.add(to, steps), e.intConst(e.b.getI16Type(), 0));
      });
    });
    words.ptr = widened;
    words.element = e.i32();
    words.dims = a.dims;
    words.dims.back() = wordCount;
    words.strides.resize(a.rank());
    Value stride = one;
    for (int axis = static_cast<int>(a.rank()) - 1; axis >= 0; --axis) {
      words.strides[axis] = stride;
      stride = e.mul(stride, words.dims[axis]);
    }
    p.a = &words;
    element = bElement = e.i32();
    steps = wordCount;
    aStep = one;
    aRowStep = words.strides[p.aAxes.outer];
    space.split = byColumns ? Split::Columns : Split::None;
  }

  auto widen = [&](Value v, Type from) -> Value {
    Type to = KernelEmitter::sameShape(v, acc);
    if (v.getType() == to)
      return v;
    if (KernelEmitter::isUnsigned(from))
      return arith::ExtUIOp::create(e.b, e.loc, to, v);
    return arith::ExtSIOp::create(e.b, e.loc, to, v);
  };
  auto scale = [&](Value v, double factor) -> Value {
    if (factor == 1)
      return v;
    if (isa<FloatType>(acc))
      return e.mulF(v, e.floatConst(v.getType(), factor));
    return arith::MulIOp::create(e.b, e.loc, v, e.intConst(v.getType(), static_cast<int64_t>(factor)));
  };

  bool failed = false;
  auto product = [&](ArrayRef<Value> batch) {
    Value aBase = p.a->ptr, bBase = p.b->ptr;
    Value aOffset = p.flat ? e.idx(0) : batchOffset(e, *p.a, batch, batchDims);
    aOffset = e.add(aOffset, e.mul(firstRow, aRowStep));
    aBase = e.gep(aBase, element, aOffset);
    if (p.packing) {
      if (p.packing->batches > 1) {
        TensorRef matrices = *p.b; // dense over batches of panels
        Value size = e.idx((p.packing->columns + kPanel - 1) / kPanel * p.packing->steps * kPanel);
        for (int axis = static_cast<int>(matrices.rank()) - 3; axis >= 0; --axis) {
          matrices.strides[axis] = size;
          size = e.mul(size, matrices.dims[axis]);
        }
        bBase = e.gep(bBase, bElement, batchOffset(e, matrices, batch, batchDims));
      }
    } else {
      bBase = e.gep(bBase, bElement, batchOffset(e, *p.b, batch, batchDims));
    }
    if (packsHere) {
      TensorRef source = *p.b;
      source.ptr = bBase;
      emitPackPanels(e, source, e.scratch, steps, columns, [&](Value k, Value n) {
        return e.add(e.mul(k, p.b->strides[p.bAxes.reduction]), e.mul(n, p.b->strides[p.bAxes.outer]));
      });
      bBase = e.scratch;
    }
    Type columnElement = packsHere ? panelElement(p.b->element) : bElement;

    auto pointOf = [&](Value row, Value column) {
      Point at;
      at.index.assign(batch.begin(), batch.end());
      at.index.resize(p.rank, e.idx(0));
      at.dims = y.dims;
      if (p.flat)
        at.index[flat] = e.add(row, firstRow);
      else if (p.rowAxis >= 0)
        at.index[p.rowAxis] = e.add(row, firstRow);
      if (p.columnAxis >= 0)
        at.index[p.columnAxis] = column, at.laneAxis = p.columnAxis;
      return at;
    };
    auto finish = [&](Value v, const Point &at) -> FailureOr<Value> {
      v = scale(v, alpha);
      if (c && beta != 0) {
        Value added = e.splat(e.loadAt(*c, at), at.lanes);
        if (!isa<FloatType>(acc))
          v = arith::AddIOp::create(e.b, e.loc, v, scale(added, beta));
        else if (beta == 1)
          v = e.addF(v, added);
        else
          v = e.fma(added, e.floatConst(v.getType(), beta), v);
      }
      return family == Family::Integer ? v : e.round(v, element);
    };
    if (isStreaming(e.isa)) {
      Value stride = p.packing || packsHere ? Value{} : p.b->strides[p.bAxes.reduction];
      OuterSpace outer{rows, columns, steps, bBase, stride, e.scratch};
      if (packsHere)
        outer.packed = e.gep(outer.packed, acc, e.mul(e.mul(e.ceilDivU(columns, e.idx(kPanel)), kPanel), steps));
      Value floats = e.mul(e.maxS(e.ceilDivU(steps, e.idx(4)), one), 4 * kOuterRows);
      outer.packed = e.gep(outer.packed, acc, e.mul(e.workgroup, floats));
      auto knownRows = KernelEmitter::constantOf(rows);
      if (space.split != Split::None)
        outer.split = knownRows && *knownRows <= kOuterRows ? Split::Columns : Split::Rows;
      RowPacker packer(e, outer.packed);
      auto pack = [&](Value first, Value count) {
        Value base = e.gep(aBase, acc, e.mul(first, aRowStep));
        auto at = [&](Value row) { return e.gep(base, acc, e.mul(row, aRowStep)); };
        if (KernelEmitter::constantOf(aStep) == 1)
          packer.packRuns(count, e.idx(0), steps, at);
        else if (KernelEmitter::constantOf(aRowStep) == 1)
          packer.packColumns(count, steps, base, aStep);
        else
          packer.packElements(count, steps, [&](Value row, Value k) {
            return e.rawLoad(acc, e.gep(at(row), acc, e.mul(k, aStep)));
          });
      };
      failed |= mlir::failed(outerProducts(e, op, fusion, outer, pack, pointOf, finish));
      return;
    }
    forTiles(e, space, [&](const Tile &tile) {
      TileRows tileRows{{}, element, aStep, {}};
      Value last = e.sub(rows, 1);
      SmallVector<Value> rowNumbers;
      for (unsigned i = 0; i < tile.rows; ++i) {
        Value row = e.add(tile.row, i);
        if (tile.rowLimit && i)
          row = e.minS(row, last);
        rowNumbers.push_back(row);
        tileRows.ptr.push_back(e.gep(aBase, element, e.mul(row, aRowStep)));
      }
      TileColumns tileColumns;
      if (p.packing || packsHere) {
        tileColumns = panelColumns(e, tile, bBase, columnElement, steps);
      } else {
        Value stride = p.bAxes.outer < 0 ? e.idx(0) : p.b->strides[p.bAxes.outer];
        tileColumns = {{}, bElement, p.b->strides[p.bAxes.reduction], tile.lanes, tile.mask, {}, nullptr};
        for (unsigned j = 0; j < tile.vectors; ++j)
          tileColumns.ptr.push_back(e.gep(bBase, bElement, e.mul(tile.columnOf(e, j), stride)));
      }
      if (pairs) {
        tileColumns.multiply = multiplyPairs;
      } else if (family == Family::Integer) {
        SmallVector<Value> zeroA, zeroB;
        for (Value row : rowNumbers) {
          if (!aZero)
            break;
          SmallVector<Value> index(aZero->rank(), e.idx(0));
          if (aZero->rank() == 1)
            index[0] = e.select(e.eq(aZero->dims[0], one), e.idx(0), row);
          Value offset = e.offsetOf(*aZero, index);
          if (aZero->rank() > 1) {
            Value many = e.eq(aZero->dims[aZero->rank() - 2], one);
            offset = e.add(batchOffset(e, *aZero, batch, batchDims),
                           e.select(many, e.idx(0), e.mul(row, aZero->strides[aZero->rank() - 2])));
          }
          zeroA.push_back(widen(e.loadElement(*aZero, offset), aZero->element));
        }
        for (unsigned j = 0; bZero && j < tile.vectors; ++j) {
          Value column = tile.columnOf(e, j);
          Point at;
          at.index.assign(std::max<unsigned>(bZero->rank(), 1), e.idx(0));
          at.index.back() = column;
          at.laneAxis = at.index.size() - 1, at.lanes = tile.lanes, at.mask = tile.mask[j];
          TensorRef t = *bZero;
          t.ptr = e.gep(t.ptr, t.element, batchOffset(e, *bZero, batch, batchDims));
          zeroB.push_back(widen(e.loadAt(t, at), bZero->element));
        }
        auto shifted = [&](Value v, Type from, ArrayRef<Value> zeros, unsigned which) -> Value {
          Value wide = widen(v, from);
          return zeros.empty() ? wide : Value(arith::SubIOp::create(e.b, e.loc, wide, zeros[which]));
        };
        tileRows.convert = [=](Value v, unsigned i) { return shifted(v, element, zeroA, i); };
        tileColumns.convert = [=](Value v, unsigned j) { return shifted(v, p.b->element, zeroB, j); };
      }
      SmallVector<Value> sums(tile.rows * tile.vectors, zeroOf(e, KernelEmitter::withLanes(acc, tile.lanes)));
      sums = accumulate(e, sums, tileRows, tileColumns, steps);
      failed |= mlir::failed(storeTile(e, op, fusion, tile, sums, pointOf, finish));
    });
  };

  if (KernelEmitter::constantOf(batches) == 1) {
    product(SmallVector<Value>(p.batchAxes, e.idx(0)));
    return failure(failed);
  }
  auto [begin, end] = packsHere || pairs ? std::pair{e.idx(0), batches} : workgroupShare(e, batches);
  e.forLoop(begin, end, one, [&](Value number) {
    product(unflattenIndex(e, number, batchDims));
  });
  return failure(failed);
}

onnx::Sym Contraction::workgroups(tsr::DispatchOp op, const DispatchSizes &sizes) const {
  if (packsAtRunTime(op))
    return nullptr;
  Operation *root = op.getRootOp();
  onnx::SymContext &ctx = sizes.ctx;
  MatrixAxes a = axesOf(root, 0), b = axesOf(root, 1);
  int aOperand = dispatchOperand(op, 0), bOperand = dispatchOperand(op, 1);
  if (aOperand < 0 || bOperand < 0)
    return nullptr;
  auto &result = sizes.results[0];
  unsigned batchAxes = result.size() - (a.outer >= 0) - (b.outer >= 0);
  onnx::Sym batches = ctx.product(ArrayRef<onnx::Sym>(result).take_front(batchAxes));
  onnx::Sym rows = a.outer < 0 ? ctx.constant(1) : sizes.operands[aOperand][a.outer];
  onnx::Sym columns = b.outer < 0 ? ctx.constant(1) : sizes.operands[bOperand][b.outer];
  bool flat = batchAxes > 0 && a.outer >= 0 && batchFlattens(op, batchAxes, result.size());
  onnx::Sym units;
  bool pairs = usesPairs(op);
  if (!flat && !batches->isConstant(1)) {
    if (pairs)
      return nullptr;
    units = batches;
  } else {
    if (flat)
      rows = ctx.mul(rows, batches);
    auto n = columns->constant();
    units = n && *n >= 256 && (!pairs || sharesColumns(op)) ? ctx.constant(*n / 64) : ctx.ceilDiv(rows, ctx.constant(32));
  }
  // Not less than about a million multiply-adds each.
  onnx::Sym work = ctx.product({rows, columns, sizes.operands[aOperand][a.reduction]});
  if (!flat)
    work = ctx.mul(work, batches);
  units = ctx.min(units, ctx.ceilDiv(work, ctx.constant(1 << 20)));
  // Outer products need scratch memory for each.
  int64_t most = sizes.arch == Arch::AArch64 && isOuterProduct(op) ? 4 : 16;
  return ctx.max(ctx.constant(1), ctx.min(units, ctx.constant(most)));
}

TESSERA_KERNEL(Contraction, "onnx.MatMul", "onnx.Gemm", "onnx.MatMulInteger");

} // namespace
} // namespace tessera::cpu
