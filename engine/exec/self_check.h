/* The engine's check of itself: every operation against a naive oracle or a property that it must
 * have, page tags, memory. A minute of nobody's time before a long run on a machine that is new.
 *
 * Inputs are drawn by counter, so a failure is the same everywhere. Oracles are written from the
 * contracts of kernels/ops, not from the implementation; they sum in double.
 */
#ifndef KC_ENGINE_EXEC_SELF_CHECK_H
#define KC_ENGINE_EXEC_SELF_CHECK_H

#include "engine/base/diag.h"
#include "kernels/ops/ops.h"

enum { KC_SELF_CHECK_TEXT_BYTES = 128 };

struct kc_self_check {
  const char *name; /* "gemm-bf16" */
  const char *what; /* what it must show, in a few words */
  /* False, or a failure, with what was found in `text`. `ops` must reach the stack and be
   * done when they return (self_check_device.h). */
  bool (*run)(const struct kc_ops *ops, void *context, char text[KC_SELF_CHECK_TEXT_BYTES]);
};

/* All checks, in the order of a forward pass. */
const struct kc_self_check *kc_self_checks(size_t *count);

#endif
