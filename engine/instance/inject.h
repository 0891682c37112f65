/* Faults in the pages of running requests, on purpose: what a server's mistakes would do, to show
 * that the integrity check finds them, and what happens where there is none.
 *
 * One fault is tried before every `every_steps`-th step, of a kind and at a place drawn from the
 * seed. Where there is nothing to damage (nobody shares, nobody runs) nothing happens.
 *
 *   kind    what went wrong                                        whose rows are wrong then
 *   LOST    one of several sharers gave its references back once    all rows that name the pages
 *           too often; the pages were dropped and handed on
 *   REUSED  a cached page in use was dropped and handed on          all rows that name the page
 *   SWAPPED two entries changed places, of two rows or of one       these rows
 *   STALE   an entry kept the pair of a page that was freed and     this row
 *           handed on
 *   RANGE   an entry names a page that the pool does not have       this row
 *
 * Ground truth. While something is damaged, the injector walks every row before every step, entry
 * by entry, and against the records, not through the check: a request that computes a token while
 * its row names a page that is not its own is contaminated. With the check on, such a request is
 * aborted before it computes.
 *
 * Entries that were overwritten get their right pair back just before their row is released, so
 * that no page is lost; what is done to shared pages is mended when the rows have been checked.
 */
#ifndef KC_ENGINE_INSTANCE_INJECT_H
#define KC_ENGINE_INSTANCE_INJECT_H

#include "engine/base/random.h"
#include "engine/sched/batch.h"

enum kc_inject_kind {
  KC_INJECT_LOST = 1,
  KC_INJECT_REUSED = 2,
  KC_INJECT_SWAPPED = 4,
  KC_INJECT_STALE = 8,
  KC_INJECT_RANGE = 16,
  KC_INJECT_ALL = 31
};
enum { KC_INJECT_KINDS = 5, KC_INJECT_DAMAGES_MAX = 4096 };
const char *kc_inject_kind_name(enum kc_inject_kind kind); /* "lost", "reused", ...: pinned */

struct kc_inject_config {
  uint32_t kinds;       /* any of kc_inject_kind; 0 = no faults */
  uint32_t every_steps; /* > 0 */
  uint64_t seed;
};

/* An entry that was overwritten, and what belongs there. */
struct kc_inject_damage {
  uint32_t slot;
  uint32_t index;
  struct kc_page right;
};

struct kc_injector {
  struct kc_inject_config config;
  struct kc_random random;
  struct kc_inject_damage *damage; /* [KC_INJECT_DAMAGES_MAX] of rows not yet released */
  uint32_t damage_count;
  bool expelled;         /* shared pages were dropped under rows that may still name them */
  uint64_t injected[KC_INJECT_KINDS]; /* by kind, in the order of the bits */
  uint64_t victims;      /* requests whose rows were wrong when they were looked at, each once */
  uint64_t aborted_soundly; /* of those, aborted by the check before they computed anything */
  uint64_t mistaken;     /* requests that the check aborted although their rows were right: 0 */
  uint64_t contaminated; /* requests that computed a token from a wrong page */
};

#endif
