/* Memory of a forward: for forward.c alone. */
#ifndef KC_ENGINE_EXEC_FORWARD_SCRATCH_H
#define KC_ENGINE_EXEC_FORWARD_SCRATCH_H

#include "engine/exec/forward.h"

/* What the inputs of a pass hold. */
struct kc_inputs_size {
  uint32_t rows, pieces, yields;
  uint32_t singles, splits; /* of the plan; 0: none */
};

/* Lays the arrays behind `base`, one behind another, each aligned to 16; returns the bytes. The
 * same sizes give the same places behind any base, so one copy sends all. */
uint64_t kc_inputs_lay_out(struct kc_inputs *in, unsigned char *base,
                           const struct kc_inputs_size *size);

#endif
