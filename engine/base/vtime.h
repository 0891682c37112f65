/* Virtual time: int64 picoseconds since the start of the run (range 106 days, overflow-checked). */
#ifndef KC_ENGINE_BASE_VTIME_H
#define KC_ENGINE_BASE_VTIME_H

#include "engine/base/check.h"
#include "engine/base/diag.h"

typedef int64_t kc_ps; /* picoseconds of virtual time */

#define KC_PS_PER_NS INT64_C(1000)
#define KC_PS_PER_US INT64_C(1000000)
#define KC_PS_PER_MS INT64_C(1000000000)
#define KC_PS_PER_S INT64_C(1000000000000)
#define KC_PS_NEVER INT64_MAX /* later than every event */

__extension__ typedef unsigned __int128 kc_u128;
__extension__ typedef __int128 kc_i128;

/* a + b. Both must be >= 0 and the sum must fit: a run longer than 106 days is refused where the
 * trace is read, so a failure here is our own mistake and asserts. */
static inline kc_ps kc_ps_add(kc_ps a, kc_ps b)
{
  kc_ps sum;
  KC_ASSERT(a >= 0 && b >= 0);
  const bool overflow = __builtin_add_overflow(a, b, &sum);
  KC_ASSERT(!overflow);
  return sum;
}

/* round(a * b / c), half up, in 128 bits; the result must fit in 64 bits. c > 0. */
uint64_t kc_muldiv_round(uint64_t a, uint64_t b, uint64_t c);

#endif
