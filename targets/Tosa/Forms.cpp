#include "targets/Tosa/Forms.h"

using namespace mlir;

namespace tessera::tosa {

Perm identityPerm(int64_t rank) { return llvm::to_vector<6>(llvm::seq<int64_t>(0, rank)); }

Perm inversePerm(ArrayRef<int64_t> perm) {
  Perm inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[perm[i]] = i;
  return inverse;
}

bool isIdentity(ArrayRef<int64_t> perm) { return llvm::equal(perm, llvm::seq<int64_t>(0, perm.size())); }

Perm permBetween(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  Perm where = inversePerm(from), result;
  for (int64_t axis : to)
    result.push_back(where[axis]);
  return result;
}

Perm channelsLast(int64_t rank) {
  Perm p{0};
  for (int64_t i = 2; i < rank; ++i)
    p.push_back(i);
  p.push_back(1);
  return p;
}

Perm channelsFirst(int64_t rank) { return inversePerm(channelsLast(rank)); }

void Forms::set(Value logical, Value stored, ArrayRef<int64_t> perm) {
  forms[logical].push_back({Perm(perm), stored});
}

ArrayRef<int64_t> Forms::order(Value logical) const { return forms.find(logical)->second.front().perm; }

Value Forms::get(Value logical, ArrayRef<int64_t> perm, Transpose transpose) {
  auto it = forms.find(logical);
  if (it == forms.end())
    return {};
  for (const Form &form : it->second)
    if (ArrayRef<int64_t>(form.perm) == perm)
      return form.stored;
  Value stored = transpose(it->second.front().stored, permBetween(it->second.front().perm, perm));
  it->second.push_back({Perm(perm), stored});
  return stored;
}

} // namespace tessera::tosa
