#include "passes/Partition/Solver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using llvm::StringRef;
using llvm::Twine;

namespace tessera::partition {

Allowed allowAll(const Problem &problem) {
  Allowed all;
  for (const Op &op : problem.ops)
    all.emplace_back(op.options.size(), 1);
  return all;
}

static llvm::Error refuse(StringRef pin, const Twine &why) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "--pin " + pin + ": " + why);
}

/// Index of the operator, or an error.
static llvm::Expected<int> findOp(const Problem &problem, StringRef pin, StringRef name) {
  uint64_t index = 0;
  StringRef digits = name;
  if (digits.consume_front("#") && !digits.getAsInteger(10, index)) {
    if (index < problem.ops.size())
      return int(index);
    return refuse(pin, "there is no operator " + Twine(index) + "; the problem has " + Twine(problem.ops.size()));
  }
  int found = -1;
  for (size_t j = 0; j < problem.ops.size(); ++j) {
    if (problem.ops[j].name != name)
      continue;
    if (found >= 0)
      return refuse(pin, "operators " + Twine(found) + " and " + Twine(j) + " are both called '" + name +
                             "'; name one as #" + Twine(found));
    found = int(j);
  }
  if (found < 0)
    return refuse(pin, "no operator is called '" + name + "'");
  return found;
}

llvm::Error pinOp(const Problem &problem, StringRef pin, Allowed &allowed) {
  auto [name, device] = pin.rsplit('=');
  if (name.empty() || device.empty())
    return refuse(pin, "must be NAME=DEVICE");
  auto op = findOp(problem, pin, name);
  if (!op)
    return op.takeError();
  auto known = llvm::find_if(problem.devices, [&, d = device](const Device &x) { return x.name == d; });
  if (known == problem.devices.end())
    return refuse(pin, "no device is called '" + device + "'");
  int index = int(known - problem.devices.begin());
  bool any = false;
  for (size_t x = 0; x < allowed[*op].size(); ++x) {
    allowed[*op][x] &= problem.ops[*op].options[x].device == index;
    any |= allowed[*op][x];
  }
  if (!any)
    return refuse(pin, "'" + name + "' has no option on '" + device + "' (or is pinned elsewhere)");
  return llvm::Error::success();
}

} // namespace tessera::partition
