/* How long clients and the server's front wait before they give a request up. Durations count from
 * its arrival. */
#ifndef KC_SIM_REPLAY_PATIENCE_H
#define KC_SIM_REPLAY_PATIENCE_H

#include <stdint.h>

#include "engine/base/vtime.h"

struct kc_patience {
  kc_ps queue_timeout_ps;   /* given up if it has not started by then; KC_PS_NEVER = no limit */
  kc_ps timeout_ps;         /* given up if it has not ended by then; KC_PS_NEVER = no limit */
  uint64_t cancel_numerator, cancel_denominator; /* share of clients who cancel; 0/1 = none */
  kc_ps cancel_after_ps;    /* those cancel between 0 and twice this after arrival, evenly */
};

#endif
