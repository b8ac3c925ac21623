// What the bundle says about its inputs and outputs.
#include "runtime-stub/src/Bundle.h"

using namespace tsr;

namespace {

tsr_status_t describeTensor(TableVector list, u32 index,
                            tsr_tensor_info_t *out) {
  if (index >= list.count)
    return TSR_REFUSED;
  Table tensor = list[index];
  out->name = tensor.text(field::kTensorName);
  out->element_type = tensor.get<i32>(field::kElementType);
  out->rank = tensor.vector<Dim>(field::kDims).count;
  out->kind = tensor.get<u8>(field::kTensorKind);
  out->optional = tensor.get<u32>(field::kDefaultBuffer, kNone) != kNone;
  return TSR_OK;
}

tsr_status_t describeDim(TableVector list, u32 index, u32 axis,
                         tsr_dim_t *out) {
  if (index >= list.count ||
      axis >= list[index].vector<Dim>(field::kDims).count)
    return TSR_REFUSED;
  Table tensor = list[index];
  const Dim &dim = tensor.vector<Dim>(field::kDims).at(axis);
  TableVector names = tensor.tables(field::kDimNames);
  *out = {dim.value, dim.min, dim.max, dim.multiple,
          axis < names.count ? names.text(axis) : ""};
  return TSR_OK;
}

} // namespace

extern "C" uint32_t tsr_input_count(const tsr_bundle_t *bundle) {
  return bundle->inputs.count;
}
extern "C" uint32_t tsr_output_count(const tsr_bundle_t *bundle) {
  return bundle->outputs.count;
}

extern "C" tsr_status_t tsr_input_info(const tsr_bundle_t *bundle,
                                       uint32_t index, tsr_tensor_info_t *out) {
  return describeTensor(bundle->inputs, index, out);
}
extern "C" tsr_status_t tsr_output_info(const tsr_bundle_t *bundle,
                                        uint32_t index,
                                        tsr_tensor_info_t *out) {
  return describeTensor(bundle->outputs, index, out);
}
extern "C" tsr_status_t tsr_input_dim(const tsr_bundle_t *bundle,
                                      uint32_t index, uint32_t axis,
                                      tsr_dim_t *out) {
  return describeDim(bundle->inputs, index, axis, out);
}
extern "C" tsr_status_t tsr_output_dim(const tsr_bundle_t *bundle,
                                       uint32_t index, uint32_t axis,
                                       tsr_dim_t *out) {
  return describeDim(bundle->outputs, index, axis, out);
}
