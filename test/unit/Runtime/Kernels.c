/* Kernels for hand-made plans, built as codegen builds its own: freestanding,
 * position independent, no undefined symbols. */
#include "runtime-stub/include/tessera/kernel_abi.h"

/* out[i] = a[i] + b[i]; scalars: element count. */
int32_t add_f32(void *const *buffers, const int64_t *scalars, uint64_t workgroup) {
  const float *a = buffers[0], *b = buffers[1];
  float *out = buffers[2];
  for (int64_t i = 0; i < scalars[0]; ++i)
    out[i] = a[i] + b[i];
  return TSR_KERNEL_OK;
}

/* out[i] = a[i] * 0.5f, so that the smallest normal number gives a denormal. */
int32_t halve_f32(void *const *buffers, const int64_t *scalars, uint64_t workgroup) {
  const volatile float *a = buffers[0];
  float *out = buffers[1];
  for (int64_t i = 0; i < scalars[0]; ++i)
    out[i] = a[i] * 0.5f;
  return TSR_KERNEL_OK;
}

/* out = a[index]; refuses an index out of [0, scalars[0]). */
int32_t gather_f32(void *const *buffers, const int64_t *scalars, uint64_t workgroup) {
  const float *a = buffers[0];
  int64_t index = *(const int64_t *)buffers[1];
  if (index < 0 || index >= scalars[0])
    return TSR_KERNEL_INDEX_OUT_OF_RANGE;
  *(float *)buffers[2] = a[index];
  return TSR_KERNEL_OK;
}

/* out[workgroup] = workgroup * workgroup. */
int32_t squares_i64(void *const *buffers, const int64_t *scalars, uint64_t workgroup) {
  ((int64_t *)buffers[0])[workgroup] = (int64_t)(workgroup * workgroup);
  return workgroup == (uint64_t)scalars[0] ? TSR_KERNEL_BAD_VALUE : TSR_KERNEL_OK;
}

/* A table of addresses: makes the image have relative relocations. */
static const char *const kNames[] = {"zero", "one", "two", "three"};

/* out[i] = first character of the name of i. */
int32_t names_u8(void *const *buffers, const int64_t *scalars, uint64_t workgroup) {
  for (int64_t i = 0; i < scalars[0]; ++i) {
    const char *const volatile *name = &kNames[i & 3];
    ((char *)buffers[0])[i] = (*name)[0];
  }
  return TSR_KERNEL_OK;
}

/* out[i] = number of positive elements before i ...; count of positives in the
 * second buffer: a result whose extent only the kernel knows. */
int32_t compact_f32(void *const *buffers, const int64_t *scalars, uint64_t workgroup) {
  const float *a = buffers[0];
  float *out = buffers[1];
  int64_t count = 0;
  for (int64_t i = 0; i < scalars[0]; ++i)
    if (a[i] > 0)
      out[count++] = a[i];
  *(int64_t *)buffers[2] = count;
  return TSR_KERNEL_OK;
}

/* out = where the first operand lies: what no kernel of ours would do. */
int32_t address_i64(void *const *buffers, const int64_t *scalars, uint64_t workgroup) {
  *(int64_t *)buffers[1] = (int64_t)buffers[0];
  return TSR_KERNEL_OK;
}

/* out = the float at an address: reaches into memory that is not its own. */
int32_t peek_f32(void *const *buffers, const int64_t *scalars, uint64_t workgroup) {
  *(float *)buffers[1] = *(const float *)*(const int64_t *)buffers[0];
  return TSR_KERNEL_OK;
}
