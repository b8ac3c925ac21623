// Values that are more than one tensor of the bundle: strings, sequences and
// optionals, as FORMAT.md (Kinds) lays them out.
#ifndef TESSERA_TSR_RUN_VALUES_H
#define TESSERA_TSR_RUN_VALUES_H

#include "runtime-stub/include/tessera/runtime.h"
#include "tools/tsr-run/Tensor.h"

#include <functional>
#include <optional>

namespace runner {

/// One input or output of the model: neighbouring tensors of the bundle.
struct Group {
  uint32_t first = 0, count = 1;
  bool optional = false, sequence = false, strings = false;
  bool plain() const { return !optional && !sequence && !strings; }
};

/// `info(i)` describes tensor i of `count`.
std::vector<Group> groupsOf(uint32_t count, const std::function<tsr_tensor_info_t(uint32_t)> &info);

/// The tensors of `group` from a file: a .npy or TensorProto, a SequenceProto,
/// an OptionalProto, as the group needs. `dims(i)` are the group's tensor's
/// declared extents (-1: open), for the value that is not there.
std::vector<Tensor> readGroup(const Group &group, const std::string &path,
                              const std::function<tsr_tensor_info_t(uint32_t)> &info,
                              const std::function<std::vector<int64_t>(uint32_t)> &dims);

/// The protobuf message of a group's tensors.
std::string formatGroup(const Group &group, const std::vector<tsr_tensor_t> &parts, const std::string &name);
/// A tensor of strings as numpy's unicode array.
std::string formatStringsNpy(const tsr_tensor_t &chars);

} // namespace runner
#endif
