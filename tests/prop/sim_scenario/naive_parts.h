/* What the parts of the plain twin need of each other. See naive_instance.h. */
#ifndef KC_TESTS_PROP_SIM_SCENARIO_NAIVE_PARTS_H
#define KC_TESTS_PROP_SIM_SCENARIO_NAIVE_PARTS_H

#include "naive_instance.h"

#define NAIVE_NOBODY UINT32_MAX

static inline uint64_t naive_pages_of(const struct naive_run *run, uint64_t tokens)
{
  return (tokens + run->sched.page_size - 1) / run->sched.page_size;
}

/* Prompt and outputs. */
static inline uint32_t naive_known(const struct naive_run *run, uint32_t request)
{
  return run->requests[request].input_tokens + run->state[request].outputs;
}

/* ---- naive_instance.c ---- */

/* True when the forming of this step knows that `request` waits. */
bool naive_sees(const struct naive_run *run, uint32_t request);
/* `request` leaves the waiting list and joins the batch. */
void naive_join(struct naive_run *run, uint32_t request);
/* It was admitted with so many tokens from the cache. */
void naive_note_hits(struct naive_run *run, uint32_t request, uint32_t tokens);
/* `request` leaves the batch, gives its pages back and waits again; a ghost just goes. */
void naive_unseat(struct naive_run *run, uint32_t request);
/* `request`, wherever it is, ends as given up; a ghost just goes. */
void naive_refuse(struct naive_run *run, uint32_t request, enum kc_reason reason);

/* ---- policies ---- */

void naive_form_vllm(struct naive_run *run);
void naive_form_sglang(struct naive_run *run);
/* The server has nothing to do. */
void naive_sglang_idle(struct naive_run *run);

/* ---- naive_cache.c: one of the three disciplines ---- */

void naive_cache_begin(struct naive_run *run);
void naive_cache_end(struct naive_run *run);
/* Pages that somebody could be given: free ones and cached ones that nobody uses. */
uint64_t naive_available(const struct naive_run *run);
/* Free ones. */
uint64_t naive_free(const struct naive_run *run);
/* Cached ones that nobody uses. */
uint64_t naive_cached_idle(const struct naive_run *run);
/* RADIX: when fewer than `count` pages are free, drops leaves of as many. */
void naive_make_room(struct naive_run *run, uint64_t count);
/* Pages of the beginning of `request` that are cached, at most `pages_max`; *idle: those of them
 * that nobody uses. */
uint32_t naive_lookup(struct naive_run *run, uint32_t request, uint32_t pages_max, uint32_t *idle);
void naive_attach(struct naive_run *run, uint32_t request, uint32_t pages);
/* `count` pages more; there are as many. */
void naive_take(struct naive_run *run, uint32_t request, uint64_t count);
/* The first `tokens` tokens of `request` can be found from now on, as far as they fill pages. */
void naive_publish(struct naive_run *run, uint32_t request, uint64_t tokens);
void naive_release(struct naive_run *run, uint32_t request);

/* ---- naive_cache_blocks.c ---- */

void naive_blocks_begin(struct naive_run *run);
void naive_blocks_end(struct naive_run *run);
uint32_t naive_blocks_lookup(const struct naive_run *run, uint32_t request, uint32_t pages_max,
                             uint32_t *idle);
void naive_blocks_attach(struct naive_run *run, uint32_t request, uint32_t pages);
void naive_blocks_take(struct naive_run *run, uint32_t request, uint64_t count);
void naive_blocks_publish(struct naive_run *run, uint32_t request, uint32_t pages);
void naive_blocks_release(struct naive_run *run, uint32_t request);

/* ---- naive_cache_radix.c ---- */

uint64_t naive_radix_free(const struct naive_run *run);
uint64_t naive_radix_idle(const struct naive_run *run);
uint32_t naive_radix_match(struct naive_run *run, uint32_t request, uint32_t pages_max,
                           uint32_t *idle);
void naive_radix_make_room(struct naive_run *run, uint64_t count);
void naive_radix_attach(struct naive_run *run, uint32_t request, uint32_t pages);
void naive_radix_take(struct naive_run *run, uint32_t request, uint64_t count);
void naive_radix_publish(struct naive_run *run, uint32_t request, uint32_t pages);

#endif
