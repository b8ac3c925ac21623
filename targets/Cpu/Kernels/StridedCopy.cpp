#include "targets/Cpu/Kernels/StridedCopy.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tessera::cpu {

static bool isConst(Value v, int64_t c) {
  auto k = KernelEmitter::constantOf(v);
  return k && *k == c;
}

bool sameValue(Value a, Value b) {
  if (a == b)
    return true;
  auto ca = KernelEmitter::constantOf(a), cb = KernelEmitter::constantOf(b);
  if (ca || cb)
    return ca && cb && *ca == *cb;
  Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
  if (!x || !y || x->getName() != y->getName() || x->getNumOperands() != 2 ||
      y->getNumOperands() != 2 || x->getNumRegions() || !isa<arith::MulIOp, arith::AddIOp>(x))
    return false;
  return (sameValue(x->getOperand(0), y->getOperand(0)) &&
          sameValue(x->getOperand(1), y->getOperand(1))) ||
         (sameValue(x->getOperand(0), y->getOperand(1)) &&
          sameValue(x->getOperand(1), y->getOperand(0)));
}

bool isProduct(Value outer, Value dim, Value inner) {
  auto o = KernelEmitter::constantOf(outer), d = KernelEmitter::constantOf(dim),
       i = KernelEmitter::constantOf(inner);
  if (i && *i == 0)
    return o && *o == 0;
  if (o && d && i)
    return *o == *d * *i;
  if (d && *d == 1)
    return sameValue(outer, inner);
  if (i && *i == 1)
    return sameValue(outer, dim);
  if (auto mul = outer.getDefiningOp<arith::MulIOp>())
    return (sameValue(mul.getLhs(), dim) && sameValue(mul.getRhs(), inner)) ||
           (sameValue(mul.getLhs(), inner) && sameValue(mul.getRhs(), dim));
  return false;
}

// Lanes for copies: fixed even where the ISA is scalable.
static unsigned copyLanes(KernelEmitter &e, unsigned bits) {
  return e.isa.scalable ? 128 / bits : std::max(1u, e.isa.vectorBits / bits);
}

static Value bytePtr(KernelEmitter &e, unsigned bits, Value ptr, Value offset) {
  return e.gep(ptr, e.b.getIntegerType(bits), offset);
}

static Value loadRaw(KernelEmitter &e, unsigned bits, unsigned lanes, Value ptr, Value offset) {
  Type type = KernelEmitter::withLanes(e.b.getIntegerType(bits), {lanes, false});
  return e.rawLoad(type, bytePtr(e, bits, ptr, offset), bits / 8);
}

static void storeRaw(KernelEmitter &e, unsigned bits, Value ptr, Value offset, Value v) {
  e.rawStore(v, bytePtr(e, bits, ptr, offset), bits / 8);
}

// Calls body(offset, lanes) so that [0, n) is covered; a vector may overlap the
// one before it.
static void coverRow(KernelEmitter &e, unsigned bits, Value n,
                     function_ref<void(Value, unsigned)> body) {
  unsigned lanes = copyLanes(e, bits);
  auto constant = KernelEmitter::constantOf(n);
  if (constant && *constant < lanes) {
    int64_t at = 0;
    for (unsigned piece = llvm::bit_floor(lanes); piece >= 1; piece /= 2)
      if (*constant - at >= piece) {
        body(e.idx(at), piece);
        at += piece;
      }
    return;
  }
  if (constant && *constant <= 8 * static_cast<int64_t>(lanes)) {
    int64_t at = 0;
    for (; at + lanes <= *constant; at += lanes)
      body(e.idx(at), lanes);
    if (at < *constant)
      body(e.idx(*constant - lanes), lanes);
    return;
  }
  auto vectors = [&] {
    Value big = e.mul(e.divU(n, e.idx(4 * lanes)), 4 * lanes);
    e.forLoop(e.idx(0), big, e.idx(4 * lanes), [&](Value i) {
      for (unsigned u = 0; u < 4; ++u)
        body(e.add(i, u * lanes), lanes);
    });
    Value all = e.mul(e.divU(n, e.idx(lanes)), lanes);
    e.forLoop(big, all, e.idx(lanes), [&](Value i) { body(i, lanes); });
    e.ifThen(e.lt(all, n), [&] { body(e.sub(n, lanes), lanes); });
  };
  if (constant)
    return vectors();
  Value wide = e.cmp(arith::CmpIPredicate::sge, n, e.idx(lanes));
  e.ifElse(
      wide, TypeRange(), [&] { vectors(); return SmallVector<Value>(); },
      [&] { e.forLoop(n, [&](Value i) { body(i, 1); }); return SmallVector<Value>(); });
}

void copyRow(KernelEmitter &e, unsigned bits, Value dst, Value src, Value n) {
  coverRow(e, bits, n, [&](Value i, unsigned lanes) {
    storeRaw(e, bits, dst, i, loadRaw(e, bits, lanes, src, i));
  });
}

void fillRow(KernelEmitter &e, unsigned bits, Value dst, Value n, Value value) {
  coverRow(e, bits, n, [&](Value i, unsigned lanes) {
    storeRaw(e, bits, dst, i, e.splat(value, {lanes, false}));
  });
}

// --- transposition in registers ---------------------------------------------

namespace {
/// Blocks of `rows` along the destination's contiguous axis and one 128-bit
/// column group along the source's. Each 128-bit lane of a register transposes
/// its own square; loads put row i of every square into register i.
class BlockTranspose {
public:
  BlockTranspose(KernelEmitter &e, unsigned bits, unsigned rows, Value dstStride, Value srcStride)
      : e(e), bits(bits), square(128 / bits), rows(rows), dstStride(dstStride),
        srcStride(srcStride) {}

  void emit(Value dst, Value src) {
    SmallVector<Value> regs;
    for (unsigned i = 0; i < square; ++i)
      regs.push_back(gatherRow(src, i));
    for (unsigned s = square; s > 1; s /= 2) {
      SmallVector<Value> next;
      for (unsigned i = 0; i < square / 2; ++i) {
        next.push_back(interleave(regs[i], regs[i + square / 2], 0));
        next.push_back(interleave(regs[i], regs[i + square / 2], square / 2));
      }
      regs = next;
    }
    for (unsigned j = 0; j < square; ++j)
      storeRaw(e, bits, dst, e.mul(dstStride, j), regs[j]);
  }

private:
  Value gatherRow(Value src, unsigned i) {
    SmallVector<Value> parts;
    for (unsigned g = 0; g < rows / square; ++g)
      parts.push_back(loadRaw(e, bits, square, src, e.mul(srcStride, i + g * square)));
    while (parts.size() > 1) {
      SmallVector<Value> next;
      for (unsigned k = 0; k < parts.size(); k += 2) {
        unsigned n = 2 * cast<VectorType>(parts[k].getType()).getNumElements();
        SmallVector<int64_t> mask(n);
        for (unsigned m = 0; m < n; ++m)
          mask[m] = m;
        next.push_back(vector::ShuffleOp::create(e.b, e.loc, parts[k], parts[k + 1], mask));
      }
      parts = next;
    }
    return parts[0];
  }
  Value interleave(Value a, Value c, unsigned from) {
    SmallVector<int64_t> mask;
    for (unsigned g = 0; g < rows; g += square)
      for (unsigned k = 0; k < square / 2; ++k) {
        mask.push_back(g + from + k);
        mask.push_back(rows + g + from + k);
      }
    return vector::ShuffleOp::create(e.b, e.loc, a, c, mask);
  }

  KernelEmitter &e;
  unsigned bits, square, rows;
  Value dstStride, srcStride;
};
} // namespace

// `rowAxis` is contiguous in the destination, `colAxis` in the source.
static void transposePlane(KernelEmitter &e, unsigned bits, Value dst, Value src, CopyAxis rowAxis,
                           CopyAxis colAxis) {
  unsigned square = 128 / bits, rows = copyLanes(e, bits);
  auto scalarBox = [&](Value r0, Value r1, Value c0, Value c1) {
    e.forLoop(c0, c1, e.idx(1), [&](Value c) {
      e.forLoop(r0, r1, e.idx(1), [&](Value r) {
        Value v = loadRaw(e, bits, 1, src, e.add(e.mul(r, rowAxis.src), c));
        storeRaw(e, bits, dst, e.add(e.mul(c, colAxis.dst), r), v);
      });
    });
  };
  auto rowCount = KernelEmitter::constantOf(rowAxis.dim);
  auto colCount = KernelEmitter::constantOf(colAxis.dim);
  if (rowCount)
    while (rows > square && rows > *rowCount)
      rows /= 2;
  if ((rowCount && *rowCount < square) || (colCount && *colCount < square)) {
    // Few rows or columns: the few innermost, so that one side streams.
    bool fewRows = rowCount && *rowCount < square;
    Value outer = fewRows ? colAxis.dim : rowAxis.dim;
    int64_t inner = fewRows ? *rowCount : *colCount;
    e.forLoop(outer, [&](Value o) {
      for (int64_t i = 0; i < inner; ++i) {
        Value r = fewRows ? e.idx(i) : o, c = fewRows ? o : e.idx(i);
        Value v = loadRaw(e, bits, 1, src, e.add(e.mul(r, rowAxis.src), c));
        storeRaw(e, bits, dst, e.add(e.mul(c, colAxis.dst), r), v);
      }
    });
    return;
  }
  BlockTranspose block(e, bits, rows, colAxis.dst, rowAxis.src);
  Value rowEnd = e.mul(e.divU(rowAxis.dim, e.idx(rows)), rows);
  // A cache line of each source row at a time.
  unsigned group = std::max(1u, std::min(4u, 64 / (square * bits / 8)));
  if (bits <= 16)
    group = bits == 8 ? 1 : 2;
  auto columns = [&](Value from, Value to, unsigned groups) {
    e.forLoop(from, to, e.idx(groups * square), [&](Value c) {
      e.forLoop(e.idx(0), rowEnd, e.idx(rows), [&](Value r) {
        for (unsigned g = 0; g < groups; ++g) {
          Value col = e.add(c, g * square);
          block.emit(bytePtr(e, bits, dst, e.add(e.mul(col, colAxis.dst), r)),
                     bytePtr(e, bits, src, e.add(e.mul(r, rowAxis.src), col)));
        }
      });
    });
  };
  Value bigEnd = e.mul(e.divU(colAxis.dim, e.idx(group * square)), group * square);
  columns(e.idx(0), bigEnd, group);
  Value colEnd = bigEnd;
  if (group > 1) {
    colEnd = e.mul(e.divU(colAxis.dim, e.idx(square)), square);
    columns(bigEnd, colEnd, 1);
  }
  scalarBox(rowEnd, rowAxis.dim, e.idx(0), colEnd);
  scalarBox(e.idx(0), rowAxis.dim, colEnd, colAxis.dim);
}

// --- boxes --------------------------------------------------------------------

// Drops axes of one, puts the destination's contiguous axis last, merges.
// Returns false if the box is empty.
static bool simplify(SmallVectorImpl<CopyAxis> &axes) {
  for (const CopyAxis &a : axes)
    if (isConst(a.dim, 0))
      return false;
  llvm::erase_if(axes, [](const CopyAxis &a) { return isConst(a.dim, 1); });
  bool allConst = llvm::all_of(axes, [](const CopyAxis &a) {
    return KernelEmitter::constantOf(a.dst).has_value();
  });
  if (allConst) {
    auto weight = [](const CopyAxis &a) { return std::abs(*KernelEmitter::constantOf(a.dst)); };
    for (unsigned i = 1; i < axes.size(); ++i) // few axes; equal ones keep their order
      for (unsigned k = i; k > 0 && weight(axes[k - 1]) < weight(axes[k]); --k)
        std::swap(axes[k - 1], axes[k]);
  } else {
    for (unsigned i = 0; i + 1 < axes.size(); ++i)
      if (isConst(axes[i].dst, 1) && !isConst(axes.back().dst, 1)) {
        CopyAxis inner = axes[i];
        axes.erase(axes.begin() + i);
        axes.push_back(inner);
        break;
      }
  }
  return true;
}

static void mergeAxes(KernelEmitter &e, SmallVectorImpl<CopyAxis> &axes) {
  for (int i = static_cast<int>(axes.size()) - 2; i >= 0; --i) {
    CopyAxis &o = axes[i], &n = axes[i + 1];
    if (isProduct(o.dst, n.dim, n.dst) && isProduct(o.src, n.dim, n.src)) {
      n.dim = e.mul(o.dim, n.dim);
      axes.erase(axes.begin() + i);
    }
  }
}

static void loopOver(KernelEmitter &e, ArrayRef<CopyAxis> axes, Value dst, Value src, unsigned bits,
                     function_ref<void(Value, Value)> body) {
  if (axes.empty())
    return body(dst, src);
  e.forLoop(axes.front().dim, [&](Value i) {
    Value d = bytePtr(e, bits, dst, e.mul(i, axes.front().dst));
    Value s = src ? bytePtr(e, bits, src, e.mul(i, axes.front().src)) : src;
    loopOver(e, axes.drop_front(), d, s, bits, body);
  });
}

void stridedCopy(KernelEmitter &e, unsigned bits, Value dst, Value src, ArrayRef<CopyAxis> given) {
  SmallVector<CopyAxis> axes(given);
  if (!simplify(axes))
    return;
  mergeAxes(e, axes);
  if (axes.empty()) {
    storeRaw(e, bits, dst, e.idx(0), loadRaw(e, bits, 1, src, e.idx(0)));
    return;
  }
  // A short constant contiguous run becomes one wider element.
  while (bits < 64 && axes.size() > 1 && isConst(axes.back().dst, 1) && isConst(axes.back().src, 1)) {
    auto n = KernelEmitter::constantOf(axes.back().dim);
    auto even = [](Value v) {
      auto c = KernelEmitter::constantOf(v);
      return c && *c % 2 == 0;
    };
    bool ok = n && *n % 2 == 0 && *n <= 16;
    for (const CopyAxis &a : ArrayRef(axes).drop_back())
      ok = ok && even(a.dst) && even(a.src);
    if (!ok)
      break;
    bits *= 2;
    for (CopyAxis &a : MutableArrayRef(axes).drop_back()) {
      a.dst = e.idx(*KernelEmitter::constantOf(a.dst) / 2);
      a.src = e.idx(*KernelEmitter::constantOf(a.src) / 2);
    }
    axes.back().dim = e.idx(*n / 2);
    if (*n == 2) {
      axes.pop_back();
      if (!simplify(axes))
        return;
      mergeAxes(e, axes);
    }
  }
  CopyAxis inner = axes.back();
  ArrayRef<CopyAxis> outer = ArrayRef(axes).drop_back();
  if (isConst(inner.dst, 1)) {
    if (isConst(inner.src, 1))
      return loopOver(e, outer, dst, src, bits,
                      [&](Value d, Value s) { copyRow(e, bits, d, s, inner.dim); });
    if (isConst(inner.src, 0))
      return loopOver(e, outer, dst, src, bits, [&](Value d, Value s) {
        fillRow(e, bits, d, inner.dim, loadRaw(e, bits, 1, s, e.idx(0)));
      });
    for (unsigned i = 0; i < outer.size(); ++i) {
      if (!isConst(outer[i].src, 1))
        continue;
      CopyAxis column = outer[i];
      SmallVector<CopyAxis> rest(outer);
      rest.erase(rest.begin() + i);
      return loopOver(e, rest, dst, src, bits, [&](Value d, Value s) {
        transposePlane(e, bits, d, s, inner, column);
      });
    }
  }
  loopOver(e, axes, dst, src, bits, [&](Value d, Value s) {
    storeRaw(e, bits, d, e.idx(0), loadRaw(e, bits, 1, s, e.idx(0)));
  });
}

void stridedFill(KernelEmitter &e, unsigned bits, Value dst, ArrayRef<CopyAxis> given, Value value) {
  SmallVector<CopyAxis> axes(given);
  for (CopyAxis &a : axes)
    a.src = e.idx(0);
  if (!simplify(axes))
    return;
  mergeAxes(e, axes);
  if (axes.empty())
    return storeRaw(e, bits, dst, e.idx(0), value);
  if (isConst(axes.back().dst, 1))
    return loopOver(e, ArrayRef(axes).drop_back(), dst, {}, bits,
                    [&](Value d, Value) { fillRow(e, bits, d, axes.back().dim, value); });
  loopOver(e, axes, dst, {}, bits, [&](Value d, Value) { storeRaw(e, bits, d, e.idx(0), value); });
}

// --- tensors -------------------------------------------------------------------

// Element-wise nest for types without whole bytes.
static void elementBox(KernelEmitter &e, ArrayRef<CopyAxis> axes, Value dst, Value src,
                       function_ref<void(Value, Value)> body) {
  if (axes.empty())
    return body(dst, src);
  e.forLoop(axes.front().dim, [&](Value i) {
    elementBox(e, axes.drop_front(), e.add(dst, e.mul(i, axes.front().dst)),
               src ? e.add(src, e.mul(i, axes.front().src)) : src, body);
  });
}

// Complex elements as an inner axis of two.
static SmallVector<CopyAxis> pairs(KernelEmitter &e, ArrayRef<CopyAxis> axes) {
  SmallVector<CopyAxis> result;
  for (const CopyAxis &a : axes)
    result.push_back({a.dim, e.mul(a.dst, 2), a.src ? e.mul(a.src, 2) : e.idx(0)});
  result.push_back({e.idx(2), e.idx(1), e.idx(1)});
  return result;
}

void copyBox(KernelEmitter &e, const TensorRef &dst, Value dstOffset, const TensorRef &src,
             Value srcOffset, ArrayRef<CopyAxis> axes) {
  unsigned bits = onnx::getStorageBits(dst.element);
  if (bits < 8)
    return elementBox(e, axes, dstOffset, srcOffset, [&](Value d, Value s) {
      e.storeElement(dst, d, e.loadElement(src, s));
    });
  if (isa<ComplexType>(dst.element)) {
    bits /= 2;
    return stridedCopy(e, bits, bytePtr(e, bits, dst.ptr, e.mul(dstOffset, 2)),
                       bytePtr(e, bits, src.ptr, e.mul(srcOffset, 2)), pairs(e, axes));
  }
  stridedCopy(e, bits, bytePtr(e, bits, dst.ptr, dstOffset),
              bytePtr(e, bits, src.ptr, srcOffset), axes);
}

void fillBox(KernelEmitter &e, const TensorRef &dst, Value dstOffset, ArrayRef<CopyAxis> axes,
             Value value) {
  unsigned bits = onnx::getStorageBits(dst.element);
  if (isa<ComplexType>(dst.element)) {
    bits /= 2;
    return stridedFill(e, bits, bytePtr(e, bits, dst.ptr, e.mul(dstOffset, 2)), pairs(e, axes),
                       e.intConst(e.b.getIntegerType(bits), 0));
  }
  if (bits < 8) {
    if (!value)
      value = isa<FloatType>(dst.element) ? e.floatConst(e.f32(), 0)
                                          : e.intConst(KernelEmitter::valueType(dst.element), 0);
    return elementBox(e, axes, dstOffset, {}, [&](Value d, Value) { e.storeElement(dst, d, value); });
  }
  Value raw = e.intConst(e.b.getIntegerType(bits), 0);
  if (value) {
    // Through memory, so that the conversion is the one of every other store.
    TensorRef cell;
    cell.ptr = e.allocaBytes(16);
    cell.element = dst.element;
    e.storeElement(cell, e.idx(0), value);
    raw = e.rawLoad(e.b.getIntegerType(bits), cell.ptr, bits / 8);
  }
  stridedFill(e, bits, bytePtr(e, bits, dst.ptr, dstOffset), axes, raw);
}

void moveElement(KernelEmitter &e, const TensorRef &dst, Value dstOffset, const TensorRef &src,
                 Value srcOffset) {
  copyBox(e, dst, dstOffset, src, srcOffset, {});
}

void copyTensor(KernelEmitter &e, const TensorRef &dst, const TensorRef &src) {
  SmallVector<CopyAxis> axes;
  for (unsigned k = 0; k < dst.rank(); ++k)
    axes.push_back({dst.dims[k], dst.strides[k], src.strides[k]});
  copyBox(e, dst, e.idx(0), src, e.idx(0), axes);
}

} // namespace tessera::cpu
