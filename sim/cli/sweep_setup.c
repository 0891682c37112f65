/* Set-up that commands of many points share (see sweep_setup.h). */
#include "sim/cli/sweep_setup.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/cli/cli.h"
#include "sim/cli/sets.h"

static_assert(sizeof((struct kc_cli_sets *)0)->item / sizeof(char *) <= KC_SWEEP_BASE_SETS_MAX,
              "a sweep takes all changes of the command line");

uint32_t kc_sweep_threads(uint32_t asked)
{
  cpu_set_t set;
  KC_ASSERT(asked <= KC_SWEEP_THREADS_MAX);
  if (asked > 0) return asked;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  KC_ASSERT(count > 0);
  return count < KC_SWEEP_THREADS_MAX ? (uint32_t)count : (uint32_t)KC_SWEEP_THREADS_MAX;
}

void kc_sweep_tell_stored(const char *database, const struct kc_sweep_totals *totals)
{
  char path[KC_DIAG_PATH_BYTES];
  uint64_t finished = 0;
  for (int s = 0; s <= KC_POINT_FAILED; s++) finished += totals->by_status[s];
  KC_ASSERT(totals->known <= finished);
  snprintf(path, sizeof path, "%s", database);
  kc_text_clean(path);
  kc_cli_note("%llu point%s in %s, %llu of them there before or known by their inputs",
              (unsigned long long)finished, kc_plural(finished), path,
              (unsigned long long)totals->known);
}

int kc_sweep_status(const struct kc_sweep *sweep, const struct kc_sweep_totals *totals)
{
  struct kc_diag diag;
  const unsigned long long no_fit = totals->by_status[KC_POINT_NO_FIT];
  const unsigned long long refused = totals->by_status[KC_POINT_REFUSED];
  KC_ASSERT(no_fit + refused <= totals->points);
  if (sweep->shards > 1 || no_fit + refused < totals->points) return 0;
  kc_fail(&diag, no_fit > 0 ? KC_ERR_NO_FIT : KC_ERR_INPUT, "nothing could be run: %llu of the "
          "points do not fit, %llu are refused; the rows say why", no_fit, refused);
  return kc_cli_fail(&diag);
}
