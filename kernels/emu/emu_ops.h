/* The operations table of the emulated CUDA kernels. */
#ifndef KC_KERNELS_EMU_EMU_OPS_H
#define KC_KERNELS_EMU_EMU_OPS_H

#include "kernels/emu/emu.h"
#include "kernels/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `context` is a struct kc_emu. allocate gives memory of exactly the bytes asked for, filled with
 * 0xff, so that AddressSanitizer sees reads past an end and NaNs show what was never written. */
const struct kc_ops *kc_emu_ops(void);

#ifdef __cplusplus
}
#endif

#endif
