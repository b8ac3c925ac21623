/* The contract between compiled kernels and the loader, version 1.
 *
 * A kernel is a function of a freestanding position-independent ELF image. It
 * has no undefined symbols, calls nothing of the host and touches nothing but
 * the buffers it is given.
 *
 *   buffers   one pointer per operand, in the order of the dispatch command
 *             (inputs, outputs, scratch). A buffer of zero bytes may be null.
 *             Temporaries, constants and scratch are aligned to
 *             TSR_BUFFER_ALIGNMENT bytes; host inputs and outputs as well,
 *             since tsr_prepare places them in the host's pool.
 *   scalars   the values of the dispatch's registers: dimensions and small
 *             integers that were not known at compile time.
 *   workgroup index in [0, workgroups) of the part to compute. Parts write
 *             disjoint memory and may run on different threads; a kernel whose
 *             count is one does everything.
 *
 * The result is TSR_KERNEL_OK or the reason why the run must stop. On AArch64
 * kernels preserve what AAPCS64 demands, ZA included.
 */
#ifndef TESSERA_KERNEL_ABI_H
#define TESSERA_KERNEL_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_KERNEL_ABI_VERSION 1
#define TSR_BUFFER_ALIGNMENT 64

enum {
  TSR_KERNEL_OK = 0,
  TSR_KERNEL_INDEX_OUT_OF_RANGE = 1, /* Gather, Scatter, Slice, ... by value */
  TSR_KERNEL_BAD_VALUE = 2,          /* an operand's value has no meaning */
  TSR_KERNEL_DIVISION_BY_ZERO = 3    /* integer Div or Mod */
};

typedef int32_t (*tsr_kernel_fn)(void *const *buffers, const int64_t *scalars,
                                 uint64_t workgroup);

#ifdef __cplusplus
}
#endif
#endif
