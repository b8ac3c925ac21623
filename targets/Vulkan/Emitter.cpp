#include "targets/Vulkan/Emitter.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "targets/Cpu/Expr.h"
#include "llvm/Support/SaveAndRestore.h"

#include <limits>

using namespace mlir;

namespace tessera::vulkan {

const cpu::Isa &formulaIsa() {
  static const cpu::Isa isa{"vulkan", cpu::Arch::AArch64,
                            "",       "",
                            "",       {},
                            128,      false,
                            32,       true,
                            true,     false,
                            false,    false,
                            false,    false};
  return isa;
}

bool Buffer::useVectors() {
  if (!address && count % 4 == 0)
    lanes = 4;
  return lanes == 4;
}

Emitter::Emitter(OpBuilder &b, Location loc, const Device &device,
                 Kernel &kernel, Reasons &reasons)
    : KernelEmitter(b, loc, formulaIsa()), device(device), kernel(kernel),
      reasons(reasons) {}

// --- indices
// ----------------------------------------------------------------------

Value Emitter::value(Index i) {
  if (i.known())
    return intConst(i32(), i.c);
  return i.c ? Value(arith::AddIOp::create(b, loc, i.v, intConst(i32(), i.c)))
             : i.v;
}

Index Emitter::add(Index a, Index c) {
  int64_t sum = a.c + c.c;
  if (a.known())
    return {c.v, sum};
  if (c.known())
    return {a.v, sum};
  return {arith::AddIOp::create(b, loc, a.v, c.v), sum};
}

Index Emitter::sub(Index a, Index c) {
  if (c.known())
    return {a.v, a.c - c.c};
  if (a.known())
    return {arith::SubIOp::create(b, loc, intConst(i32(), a.c), c.v), -c.c};
  return {arith::SubIOp::create(b, loc, a.v, c.v), a.c - c.c};
}

Index Emitter::mul(Index a, Index c) {
  if (a.known() && c.known())
    return a.c * c.c;
  if (a.is(0) || c.is(0))
    return int64_t(0);
  if (a.known())
    std::swap(a, c);
  if (c.is(1))
    return a;
  if (c.known())
    return {arith::MulIOp::create(b, loc, a.v, intConst(i32(), c.c)),
            a.c * c.c};
  return Value(arith::MulIOp::create(b, loc, value(a), value(c)));
}

Index Emitter::div(Index a, Index c) {
  if (a.known() && c.known())
    return a.c / c.c;
  if (c.is(1) || a.is(0))
    return a;
  return Value(arith::DivUIOp::create(b, loc, value(a), value(c)));
}

Index Emitter::rem(Index a, Index c) {
  if (a.known() && c.known())
    return a.c % c.c;
  if (c.is(1))
    return int64_t(0);
  return Value(arith::RemUIOp::create(b, loc, value(a), value(c)));
}

Index Emitter::min(Index a, Index c) {
  if (a.known() && c.known())
    return std::min(a.c, c.c);
  return Value(arith::MinSIOp::create(b, loc, value(a), value(c)));
}

Index Emitter::max(Index a, Index c) {
  if (a.known() && c.known())
    return std::max(a.c, c.c);
  return Value(arith::MaxSIOp::create(b, loc, value(a), value(c)));
}

/// Both sides of a comparison less the left one's number: no index is near the
/// ends of 32 bits.
Value Emitter::compare(arith::CmpIPredicate predicate, Index a, Index c) {
  if (c.known())
    return arith::CmpIOp::create(b, loc, predicate, a.v,
                                 intConst(i32(), c.c - a.c));
  return arith::CmpIOp::create(b, loc, predicate, value(a), value(c));
}

Value Emitter::lt(Index a, Index c) {
  if (a.known() && c.known())
    return intConst(i1(), a.c < c.c);
  return compare(arith::CmpIPredicate::slt, a, c);
}

Value Emitter::ge(Index a, Index c) {
  if (a.known() && c.known())
    return intConst(i1(), a.c >= c.c);
  return compare(arith::CmpIPredicate::sge, a, c);
}

Value Emitter::both(Value a, Value c) {
  if (!a || !c)
    return a ? a : c;
  return arith::AndIOp::create(b, loc, a, c);
}

Index Emitter::offset(ArrayRef<Index> at, ArrayRef<int64_t> strides) {
  Index sum = 0;
  for (auto [i, stride] : llvm::zip(at, strides))
    sum = add(sum, mul(i, stride));
  return sum;
}

SmallVector<Index> Emitter::digits(Index linear, ArrayRef<int64_t> dims) {
  SmallVector<Index> at(dims.size(), Index(0));
  int64_t rest = 1;
  for (int64_t d : dims)
    rest *= d;
  for (unsigned axis = dims.size(); axis-- > 0;) {
    rest /= std::max<int64_t>(dims[axis], 1);
    if (dims[axis] == 1)
      continue;
    if (rest == 1) { // the slowest that moves
      at[axis] = linear;
      break;
    }
    at[axis] = rem(linear, dims[axis]);
    linear = div(linear, dims[axis]);
  }
  return at;
}

// --- the grid
// -----------------------------------------------------------------------

Index Emitter::groupId(unsigned axis) {
  return kernel.groups[axis] == 1 ? Index(0) : Index(builtin(0, axis));
}
Index Emitter::localId(unsigned axis) {
  return kernel.local[axis] == 1 ? Index(0) : Index(builtin(1, axis));
}

Index Emitter::globalId(unsigned axis) {
  return add(mul(groupId(axis), kernel.local[axis]), localId(axis));
}

void Emitter::grid(int64_t threads, llvm::function_ref<void(Index)> body,
                   unsigned local) {
  kernel.local = {local, 1, 1};
  int64_t groups = (threads + local - 1) / local, limit = device.maxGroups[0];
  int64_t rows = (groups + limit - 1) / limit,
          columns = rows ? (groups + rows - 1) / rows : 0;
  kernel.groups = {static_cast<uint32_t>(columns), static_cast<uint32_t>(rows),
                   1};
  Index id =
      add(mul(add(mul(groupId(1), columns), groupId(0)), local), localId(0));
  bool exact = rows * columns * local == threads;
  when(exact ? Value{} : lt(id, threads), [&] { body(id); });
}

void Emitter::gridLike(
    const Buffer &like, ArrayRef<int64_t> sizes,
    llvm::function_ref<void(Index, SmallVector<Index>)> body) {
  SmallVector<unsigned> order =
      llvm::to_vector(llvm::seq<unsigned>(like.rank()));
  llvm::stable_sort(order, [&](unsigned a, unsigned c) {
    return like.strides[a] > like.strides[c];
  });
  SmallVector<int64_t> ordered;
  int64_t threads = 1;
  for (unsigned axis : order) {
    ordered.push_back(sizes[axis]);
    threads *= sizes[axis];
  }
  grid(threads, [&](Index id) {
    SmallVector<Index> at(like.rank(), Index(0));
    for (auto [axis, digit] : llvm::zip(order, digits(id, ordered)))
      at[axis] = digit;
    body(id, std::move(at));
  });
}

// --- control
// ------------------------------------------------------------------------

SmallVector<Value> Emitter::loop(Index first, int64_t end, int64_t step,
                                 ValueRange init, Step body) {
  int64_t trips = (end - (first.known() ? first.c : 0) + step - 1) / step;
  SmallVector<Value> carried(init.begin(), init.end());
  if (trips <= 0)
    return carried;
  if (trips == 1 && first.known())
    return body(first, carried);
  return countedLoop(first, end, step, trips, init, body);
}

SmallVector<Value> Emitter::countedLoop(Index first, Index end, int64_t step,
                                        int64_t trips, ValueRange init,
                                        Step body) {
  constexpr int64_t longest = 65534;
  SmallVector<Value> carried(init.begin(), init.end());
  iterations += repeats * trips;
  if (iterations > longest) {
    reasons.no() << "loops of " << iterations << " iterations in one invocation"
                 << ", of which drivers run " << longest;
    return carried;
  }
  auto op = scf::ForOp::create(b, loc, value(first), value(end),
                               intConst(i32(), step), carried,
                               [](OpBuilder &, Location, Value, ValueRange) {});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(op.getBody());
  llvm::SaveAndRestore nested(repeats, repeats * trips);
  SmallVector<Value> results =
      body(Index(op.getInductionVar()), op.getRegionIterArgs());
  scf::YieldOp::create(b, loc, results);
  return SmallVector<Value>(op.getResults());
}

SmallVector<Value> Emitter::loopBetween(Index first, Index end, int64_t most,
                                        ValueRange init, Step body) {
  if (first.known() && end.known())
    return loop(first, end.c, 1, init, body);
  return countedLoop(first, end, 1, most, init, body);
}

void Emitter::when(Value condition, llvm::function_ref<void()> then) {
  if (!condition || constantOf(condition) == 1)
    return then();
  if (constantOf(condition) == 0)
    return;
  auto op = scf::IfOp::create(b, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.thenBlock());
  then();
}

Value Emitter::choose(Value condition, Type type,
                      llvm::function_ref<Value()> then,
                      llvm::function_ref<Value()> otherwise) {
  if (!condition || constantOf(condition) == 1)
    return then();
  if (constantOf(condition) == 0)
    return otherwise();
  auto op = scf::IfOp::create(b, loc, TypeRange{type}, condition,
                              /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.thenBlock());
  scf::YieldOp::create(b, loc, then());
  b.setInsertionPointToStart(op.elseBlock());
  scf::YieldOp::create(b, loc, otherwise());
  return op.getResult(0);
}

// --- vectors
// ------------------------------------------------------------------------

Value Emitter::pick(Value condition, Value a, Value c) {
  if (::mlir::isa<VectorType>(a.getType()) &&
      !::mlir::isa<VectorType>(condition.getType()))
    condition = quadSplat(condition);
  return arith::SelectOp::create(b, loc, condition, a, c);
}

Value Emitter::across(Value v,
                      llvm::function_ref<Value(Value, Value)> combine) {
  if (!::mlir::isa<VectorType>(v.getType()))
    return v;
  return combine(combine(lane(v, 0), lane(v, 1)),
                 combine(lane(v, 2), lane(v, 3)));
}

} // namespace tessera::vulkan
