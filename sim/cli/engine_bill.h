/* What a run of the engine will cost this machine, before it begins: bytes and arithmetic.
 *
 *   tokens of the requests x 2 operations a parameter, and attention over their contexts
 *   weights of one rank and the KV pool                                    -> memory
 *
 * An estimate: prompts found in a cache and requests that are refused are counted as computed.
 */
#ifndef KC_SIM_CLI_ENGINE_BILL_H
#define KC_SIM_CLI_ENGINE_BILL_H

#include "sim/scenario/scenario_run.h"

struct kc_engine_bill {
  double operations;     /* multiplications and additions, of one rank */
  uint64_t weight_bytes; /* of one rank */
  uint64_t pool_bytes;   /* K and V */
};

/* `run` is prepared; the model is computed as one rank of `tensor` in `precision`. */
struct kc_engine_bill kc_engine_bill_of(const struct kc_run *run, const struct kc_model *model,
                                        const struct kc_precision *precision, uint32_t tensor);

/* For a CPU: KC_ERR_LIMIT when the arithmetic is more than `limit_tflop` (10^12 operations; 0: no
 * limit), KC_ERR_MEMORY when the bytes are more than the machine has. The sentence says how long
 * `threads` would take, and what to do. */
enum kc_err kc_engine_bill_check(const struct kc_engine_bill *bill, double limit_tflop,
                                 uint32_t threads, struct kc_diag *diag);

#endif
