/* From what a workload says of its prompts to page keys (engine/kv/content.h).
 *
 *   prefix ids of a trace   blocks of 16, 64, 512 tokens -> keys of pages, dense over (salt, block,
 *                           page within the block)
 *   sessions without ids    a turn begins with the turn before it, prompt and output
 *   a closed workload       a shared prefix, and a rest of its own for every request
 *
 * Whatever is of unknown content has keys that nobody else has: a server would cache it too, and
 * nobody would ask for it. A page belongs to the block that holds its last token: with blocks
 * smaller than a page that is exact, because an id stands for everything before it as well.
 */
#ifndef KC_SIM_SCENARIO_CONTENTS_H
#define KC_SIM_SCENARIO_CONTENTS_H

#include "engine/base/diag.h"
#include "engine/kv/content.h"
#include "traces/trace.h"

/* Where keys come from, which decides what can be said of hits. Names are printed. */
enum kc_content_source {
  KC_CONTENT_UNKNOWN,  /* nothing is known: no hit rate, which is not 0 % */
  KC_CONTENT_IDS,      /* prompts by ids; outputs are never asked for again */
  KC_CONTENT_SESSIONS, /* prompts and outputs of earlier turns */
  KC_CONTENT_PREFIX    /* a closed workload's shared prefix */
};
const char *kc_content_source_name(enum kc_content_source source);

struct kc_contents {
  struct kc_content *row;    /* [count], heap; as kc_request wants them */
  struct kc_key_run *run;    /* heap */
  uint64_t count, run_count;
  uint32_t key_count;        /* keys are below it */
  enum kc_content_source source;
};

/* What the trace can say. Reads no file. */
enum kc_content_source kc_contents_of_trace(const struct kc_trace *trace);

/* Contents of all rows for pages of `page_size` tokens: floor((input + output) / page_size) keys
 * each. `salt` (may be NULL: one for all) is the tenant of each row; nothing is shared between two.
 * Errors: KC_ERR_MEMORY; KC_ERR_LIMIT when there are more pages than keys (KC_KEYS_MAX). O(pages of
 * the ids). After an error `contents` is empty. */
enum kc_err kc_contents_from_trace(struct kc_contents *contents, const struct kc_trace *trace,
                                   uint32_t page_size, const uint32_t *salt, struct kc_diag *diag);

/* `count` requests of `tokens` tokens (input + output), of which the first `shared_tokens` are the
 * same for all with the same salt. */
enum kc_err kc_contents_closed(struct kc_contents *contents, uint32_t count, uint32_t tokens,
                               uint32_t shared_tokens, uint32_t page_size, const uint32_t *salt,
                               struct kc_diag *diag);

/* All-zero contents may be freed. */
void kc_contents_free(struct kc_contents *contents);

#endif
