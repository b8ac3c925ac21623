// RegexFullMatch: the automaton of the pattern steps through all strings at once.
//
//   state = Loop(W, none, zeros) { ^(%i, %c, %s):
//     class = number of bounds <= chars[:, i]
//     s'    = chars[:, i] == 0 ? s : next[s * classes + class] }
//   y = accepts[state]
#include "passes/Canonicalise/RegexAutomaton.h"
#include "passes/Canonicalise/Strings.h"

#include "dialects/Onnx/IR/OpsCore.h"

#include "dialects/Onnx/IR/Unsupported.h"

using namespace mlir;

namespace tessera::onnx {

static Value table(ShapeBuilder &b, ArrayRef<int32_t> v) {
  HostTensor t(b.i32(), {(int64_t)v.size()});
  std::memcpy(t.mutableData(), v.data(), v.size() * 4);
  return b.weight(t);
}

TESSERA_AGGREGATE_RULE(RegexFullMatch, "RegexFullMatch") {
  Value chars = a.part(op->getOperand(0));
  auto text = encodeStrings({getString(op, "pattern")}, {}, op->getContext());
  if (!text)
    return unsupportedAttribute(op, "pattern", "it is not UTF-8, or has the character 0");
  std::vector<int32_t> pattern;
  for (int64_t i = 0; i < text->size(); ++i)
    pattern.push_back(text->integer(i));
  auto automaton = compileRegex(pattern);
  if (!automaton)
    return unsupportedAttribute(op, "pattern", "no regular expression that is supported");
  int64_t rank = charRank(chars), classes = automaton->bounds.size() + 1;
  // A whole zero tensor of the strings' shape.
  Value start = b.expandTo(b.scalar(b.i32(), 0), b.slice(b.shapeOf(chars), b.one(0), b.one(rank)), rank);
  OperationState state(op->getLoc(), "onnx.Loop");
  state.addOperands({b.scalarOf(charWidth(b, chars)), start});
  state.addTypes(start.getType());
  state.addAttribute("operandSegmentSizes", b.attrs().getDenseI32ArrayAttr({1, 0, 1}));
  state.addRegion();
  Operation *loop = b.builder().create(state);
  {
    OpBuilder::InsertionGuard guard(b.builder());
    SmallVector<Type> types{RankedTensorType::get({}, b.i64()), RankedTensorType::get({}, b.i1()), start.getType()};
    Block *body = b.builder().createBlock(&loop->getRegion(0), {}, types, SmallVector<Location>(3, op->getLoc()));
    Value c = b.gather(chars, body->getArgument(0), rank), s = body->getArgument(2);
    Value reached = b.compare("GreaterOrEqual", b.unsqueeze(c, {rank}), table(b, automaton->bounds));
    Value number = b.reduce("ReduceSum", b.cast(reached, b.i32()), {rank}, false);
    Value next = b.gather(table(b, automaton->next), b.add(b.mul(s, b.scalar(b.i32(), classes)), number));
    Value stays = b.compare("Equal", c, b.scalar(b.i32(), 0)); // behind the end
    HostTensor yes(b.i1(), {});
    yes.setInteger(0, 1);
    SmallVector<Value> results{b.weight(yes), b.where(stays, s, next)};
    YieldOp::create(b.builder(), op->getLoc(), results);
  }
  std::vector<int32_t> accepts(automaton->accepts.begin(), automaton->accepts.end());
  a.set(op->getResult(0), {b.cast(b.gather(table(b, accepts), loop->getResult(0)), b.i1())});
  return success();
}

} // namespace tessera::onnx
