// Scan as Loop.
//
//   BEFORE  Scan(%s, %x) {num_scan_inputs = 1} { ^(%t, %e): ... Yield(%t2, %o) }
//   AFTER   %n = extent of the scanned axis of %x
//           Loop(%n, none, %s) { ^(%i, %c, %t):
//             %e = Gather(%x, %i) {axis}         n - 1 - %i in reverse
//             ... Yield(true, %t2, %o) }
// Results are stacked along axis 0 by Loop; other axes take a Transpose, the
// reverse direction a Slice with step -1.
#include "passes/Canonicalise/OnnxBuilder.h"

#include "dialects/Onnx/IR/OpsCore.h"
#include "dialects/Onnx/IR/Unsupported.h"

using namespace mlir;

namespace tessera::onnx {

namespace {

SmallVector<int64_t> listOr(Operation *op, StringRef name, int64_t count) {
  SmallVector<int64_t> v = getInts(op, name);
  if (v.empty())
    v.assign(count, 0);
  return v;
}

// The type of a Loop's stacked result whose final form has the stacked axis at `axis`.
Type stackedType(Type t, int64_t axis) {
  auto ranked = dyn_cast<RankedTensorType>(t);
  if (!ranked)
    return t;
  SmallVector<int64_t> shape(ranked.getShape());
  int64_t n = shape[axis];
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin(), n);
  return ranked.clone(shape);
}

} // namespace

LogicalResult decomposeScan(Operation *op, PatternRewriter &r) {
  int64_t scanned = getInt(op, "num_scan_inputs"), inputs = op->getNumOperands();
  int64_t states = inputs - scanned, outs = op->getNumResults() - states;
  if (scanned < 1 || states < 0 || outs < 0 || op->getNumRegions() != 1)
    return unsupportedAttribute(op, "num_scan_inputs", "the node has " + Twine(inputs) + " inputs and " +
                                                           Twine(op->getNumResults()) + " outputs");
  Block &body = op->getRegion(0).front();
  Operation *yield = body.getTerminator();
  if ((int64_t)body.getNumArguments() != inputs || (int64_t)yield->getNumOperands() != states + outs)
    return unsupported(op, "its body takes " + Twine(body.getNumArguments()) + " values and gives " +
                               Twine(yield->getNumOperands()) + ", the node has " + Twine(inputs) + " inputs and " +
                               Twine(op->getNumResults()) + " outputs");
  SmallVector<int64_t> inAxes = listOr(op, "scan_input_axes", scanned),
                       inBack = listOr(op, "scan_input_directions", scanned),
                       outAxes = listOr(op, "scan_output_axes", outs),
                       outBack = listOr(op, "scan_output_directions", outs);
  if ((int64_t)inAxes.size() != scanned || (int64_t)inBack.size() != scanned ||
      (int64_t)outAxes.size() != outs || (int64_t)outBack.size() != outs)
    return unsupported(op, "a list of axes or directions has not one entry for each of " + Twine(scanned) +
                               " scanned inputs or " + Twine(outs) + " outputs");
  for (int64_t k = 0; k < scanned; ++k) {
    RankedTensorType t = rankedType(op->getOperand(states + k));
    if (!t)
      return unsupportedInput(op, states + k, "its rank is not known");
    inAxes[k] += inAxes[k] < 0 ? t.getRank() : 0;
    if (inAxes[k] < 0 || inAxes[k] >= t.getRank())
      return unsupportedAttribute(op, "scan_input_axes", "input " + Twine(states + k) + " has rank " + Twine(t.getRank()));
  }
  for (int64_t k = 0; k < outs; ++k) {
    RankedTensorType t = rankedType(op->getResult(states + k));
    if (!t && outAxes[k] != 0)
      return unsupportedAttribute(op, "scan_output_axes", "the rank of output " + Twine(states + k) + " is not known");
    if (!t)
      continue;
    outAxes[k] += outAxes[k] < 0 ? t.getRank() : 0;
    if (outAxes[k] < 0 || outAxes[k] >= t.getRank())
      return unsupportedAttribute(op, "scan_output_axes", "output " + Twine(states + k) + " has rank " + Twine(t.getRank()));
  }

  OnnxBuilder b(r, op->getLoc());
  Value x = op->getOperand(states);
  Type i64 = r.getI64Type(), i1 = r.getI1Type();
  int64_t extent = rankedType(x).getDimSize(inAxes[0]);
  Value count;
  if (ShapedType::isDynamic(extent)) {
    Value dims = b.op("Shape", {x}, RankedTensorType::get({1}, i64),
                      {b.i("start", inAxes[0]), b.i("end", inAxes[0] + 1)});
    count = b.squeeze(dims, {0});
  } else {
    count = b.ints({extent}, true);
  }

  SmallVector<Type> types;
  for (int64_t k = 0; k < states + outs; ++k)
    types.push_back(k < states ? op->getResult(k).getType()
                               : stackedType(op->getResult(k).getType(), outAxes[k - states]));
  OperationState state(op->getLoc(), "onnx.Loop");
  state.addOperands(count);
  state.addOperands(op->getOperands().take_front(states));
  state.addTypes(types);
  state.addAttribute("operandSegmentSizes",
                     r.getDenseI32ArrayAttr({1, 0, (int32_t)states}));
  Region *region = state.addRegion();
  Operation *loop = r.create(state);

  SmallVector<Type> argTypes = {RankedTensorType::get({}, i64), RankedTensorType::get({}, i1)};
  for (int64_t k = 0; k < states; ++k)
    argTypes.push_back(body.getArgument(k).getType());
  region = &loop->getRegion(0);
  Block *block = r.createBlock(region, region->end(), argTypes,
                               SmallVector<Location>(argTypes.size(), op->getLoc()));
  SmallVector<Value> arguments(block->getArguments().drop_front(2));
  Value index = block->getArgument(0), back;
  for (int64_t k = 0; k < scanned; ++k) {
    if (inBack[k] && !back)
      back = b.sub(b.sub(count, b.ints({1}, true)), index);
    RankedTensorType t = rankedType(op->getOperand(states + k));
    SmallVector<int64_t> shape(t.getShape());
    shape.erase(shape.begin() + inAxes[k]);
    arguments.push_back(b.op("Gather", {op->getOperand(states + k), inBack[k] ? back : index},
                             t.clone(shape), {b.i("axis", inAxes[k])}));
  }
  SmallVector<Value> results(yield->getOperands());
  r.mergeBlocks(&body, block, arguments);
  // mergeBlocks replaced the arguments inside the terminator.
  results.assign(yield->operand_begin(), yield->operand_end());
  r.setInsertionPoint(yield);
  HostTensor yes(i1, {});
  yes.setInteger(0, 1);
  results.insert(results.begin(), b.weight(yes));
  r.replaceOpWithNewOp<YieldOp>(yield, results);

  r.setInsertionPointAfter(loop);
  SmallVector<Value> values(loop->getResults());
  for (int64_t k = 0; k < outs; ++k) {
    Value &v = values[states + k];
    if (outBack[k])
      v = b.op("Slice", {v, b.ints({-1}), b.ints({INT64_MIN}), b.ints({0}), b.ints({-1})},
               v.getType());
    if (outAxes[k] == 0)
      continue;
    SmallVector<int64_t> perm;
    int64_t rank = rankedType(op->getResult(states + k)).getRank();
    for (int64_t a = 1; a < rank; ++a)
      perm.push_back(a);
    perm.insert(perm.begin() + outAxes[k], 0);
    v = b.transpose(v, perm);
  }
  replaceRefining(r, op, values);
  return success();
}

} // namespace tessera::onnx
