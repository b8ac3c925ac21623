#include "targets/Tosa/Raise/Raiser.h"
#include "targets/Tosa/Raise.h"

using namespace mlir;

namespace tessera::tosa {

static llvm::StringMap<RaiseFn> &table() {
  static llvm::StringMap<RaiseFn> t;
  return t;
}

RegisterRaise::RegisterRaise(std::initializer_list<StringRef> mnemonics, RaiseFn fn) {
  for (StringRef m : mnemonics)
    table()[("tosa." + m).str()] = fn;
}

Value Raiser::get(Value v, ArrayRef<int64_t> perm) {
  Perm wanted = perm.empty() ? identityPerm(rankOf(v)) : Perm(perm);
  if (auto t = constantOf(v)) {
    // Constants change their order here, not at run time.
    if (!forms.has(v) || ArrayRef<int64_t>(forms.order(v)) != ArrayRef<int64_t>(wanted)) {
      SmallVector<int64_t> dims, strides, from = onnx::rowMajorStrides(t->shape());
      for (int64_t p : wanted) {
        dims.push_back(t->shape()[p]);
        strides.push_back(from[p]);
      }
      Value w = b.weight(isIdentity(wanted) ? *t : t->strided(dims, 0, strides));
      if (!forms.has(v))
        forms.set(v, w, wanted);
      return w;
    }
  }
  return forms.get(v, wanted, [&](Value x, ArrayRef<int64_t> p) { return b.transpose(x, p); });
}

void Raiser::set(Value v, Value stored, ArrayRef<int64_t> perm) {
  forms.set(v, stored, perm.empty() ? identityPerm(rankOf(v)) : Perm(perm));
}

Perm Raiser::order(Value v) const { return forms.has(v) ? Perm(forms.order(v)) : identityPerm(rankOf(v)); }

Perm Raiser::order(ValueRange vs) const {
  int64_t largest = -1;
  Perm perm = identityPerm(rankOf(vs.front()));
  for (Value v : vs)
    if (forms.has(v) && !v.getDefiningOp<mlir::tosa::ConstOp>() && typeOf(v).getNumElements() > largest) {
      largest = typeOf(v).getNumElements();
      perm = order(v);
    }
  return perm;
}

RankedTensorType Raiser::typeIn(Value v, ArrayRef<int64_t> perm) const {
  SmallVector<int64_t> dims;
  for (int64_t p : perm)
    dims.push_back(shapeOf(v)[p]);
  return typeOf(v).clone(dims);
}

std::optional<HostTensor> Raiser::constantOf(Value v) const {
  auto op = v.getDefiningOp<mlir::tosa::ConstOp>();
  return op ? HostTensor::read(op.getValues()) : std::nullopt;
}

std::optional<SmallVector<int64_t>> Raiser::wideConstantOf(Value v) const {
  auto op = v.getDefiningOp<mlir::tosa::ConstOp>();
  return op && typeOf(v).getElementType().isInteger(48) ? onnx::getInts(op.getValues()) : std::nullopt;
}

std::optional<SmallVector<int64_t>> Raiser::shapeValues(Value v) const {
  auto op = v.getDefiningOp<mlir::tosa::ConstShapeOp>();
  if (!op)
    return std::nullopt;
  SmallVector<int64_t> values;
  for (const llvm::APInt &x : op.getValues().getValues<llvm::APInt>())
    values.push_back(x.getSExtValue());
  return values;
}

std::optional<double> Raiser::scalarOf(Value v) const {
  auto t = constantOf(v);
  if (!t || t->size() != 1)
    return std::nullopt;
  return t->isFloat() ? t->real(0) : (double)t->integer(0);
}

bool Raiser::isZero(Value v) const {
  if (auto wide = wideConstantOf(v))
    return llvm::all_of(*wide, [](int64_t x) { return x == 0; });
  auto t = constantOf(v);
  if (!t || !t->isUniform())
    return false;
  return t->isFloat() ? t->real(0) == 0 : t->integer(0) == 0;
}

FailureOr<SmallVector<Value>> raiseToOnnx(func::FuncOp func, ValueRange arguments, OpBuilder &builder) {
  Raiser r(builder);
  for (auto [parameter, argument] : llvm::zip_equal(func.getArguments(), arguments))
    r.set(parameter, argument);
  for (Operation &op : func.getBody().front()) {
    if (isa<mlir::tosa::ConstOp, mlir::tosa::ConstShapeOp, func::ReturnOp>(op))
      continue;
    auto it = table().find(op.getName().getStringRef());
    if (it == table().end())
      return LogicalResult(op.emitError() << "'" << op.getName().getStringRef() << "' is not served by the CPU");
    if (failed(it->second(&op, r)))
      return LogicalResult(op.emitError() << "this form of '" << op.getName().getStringRef()
                                          << "' is not served by the CPU");
  }
  SmallVector<Value> results;
  for (Value v : func.getBody().front().getTerminator()->getOperands())
    results.push_back(r.get(v));
  return results;
}

} // namespace tessera::tosa
