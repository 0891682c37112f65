/* Faults on purpose in the tables that attention reads, and an oracle that knows their victims.
 *
 *   step delta -> the executor's rows and the pool's tags
 *                    |  STALE, SWAPPED, RANGE: entries of rows are overwritten
 *                    |  REUSED: the tag of a page moves on, as if it had been freed and handed on
 *                 tag check  ->  verdicts
 *                    |  LATE: the tag of a page moves on that a decode is about to write to
 *                 pass: writes carry (page, tag), attention masks what has a verdict
 *                    |
 *                 oracle: who must have a verdict now, and does anybody else?
 *
 * A probe of the executor (executor.h): every `every_steps`-th step one fault is tried, of a kind
 * and at a place drawn from the seed, among the slots that this step works on. It lasts for the
 * step. The oracle does not look at tags as the check does: before the damage it proves every row
 * sound against the instance's own table and the pool's records, and a victim is a slot whose row
 * then differs from the table, or names the page that has moved on. */
#ifndef KC_ENGINE_EXEC_TAG_FAULT_H
#define KC_ENGINE_EXEC_TAG_FAULT_H

#include "engine/base/random.h"
#include "engine/exec/executor.h"

enum kc_tag_fault {
  KC_TAG_FAULT_STALE,   /* an entry keeps the pair of a page that was handed on since */
  KC_TAG_FAULT_REUSED,  /* a page that rows name is handed on before the check */
  KC_TAG_FAULT_SWAPPED, /* two entries change places, tags and all */
  KC_TAG_FAULT_RANGE,   /* an entry names a page that the pool does not have */
  KC_TAG_FAULT_LATE,    /* a page is handed on between the check and the write to it */
  KC_TAG_FAULTS
};
const char *kc_tag_fault_name(enum kc_tag_fault fault); /* "stale", "reused", ... */

struct kc_tag_faults_config {
  uint32_t kinds;         /* bit k: enum kc_tag_fault k; 0: none, the oracle alone */
  uint32_t every_steps;   /* > 0 */
  uint64_t seed;
  uint32_t slots, requests; /* of the executor */
};

struct kc_tag_faults {
  struct kc_tag_faults_config config;
  struct kc_random random;
  uint32_t *work;      /* [slots]: slots of this step's work, before the check */
  uint32_t work_count;
  bool *must;          /* [slots]: a verdict is due in this step */
  bool *hit;           /* [requests]: was a victim */
  struct {
    uint32_t slot, index;
    struct kc_page_ref right;
  } damage[2];         /* of this step's entries */
  uint32_t damages;
  uint64_t steps;      /* looked at */
  uint64_t entries;    /* proved sound before the damage */
  uint64_t injected[KC_TAG_FAULTS];
  uint64_t victims;    /* slots that had to be aborted, each once */
  uint64_t aborted;    /* and were: equal to victims */
  uint64_t missed;     /* and were not: 0 */
  uint64_t mistaken;   /* aborted without reason: 0 */
};

size_t kc_tag_faults_need(const struct kc_tag_faults_config *config);
/* KC_ERR_MEMORY when the arena is too small. */
enum kc_err kc_tag_faults_init(struct kc_tag_faults *faults,
                               const struct kc_tag_faults_config *config, struct kc_arena *arena);
/* For kc_exec_config.probe; borrows `faults`. */
struct kc_exec_probe kc_tag_faults_probe(struct kc_tag_faults *faults);

#endif
