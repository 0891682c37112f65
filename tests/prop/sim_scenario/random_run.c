/* See random_run.h. */
#include "random_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"

enum { REQUESTS_MAX = 64 };

uint32_t random_between(struct kc_random *random, uint32_t low, uint32_t high)
{
  return low + (uint32_t)kc_random_below(random, (uint64_t)high - low + 1);
}

uint64_t option_u64(int argc, char **argv, const char *name, uint64_t fallback)
{
  uint64_t value = fallback;
  for (int i = 1; i + 1 < argc; i++) {
    if (strcmp(argv[i], name) != 0) continue;
    if (!kc_parse_u64(argv[i + 1], strlen(argv[i + 1]), &value)) exit(2);
  }
  return value;
}

static void draw_windows(struct kc_sched_config *sched, struct kc_random *random)
{
  uint32_t window = 0;
  sched->cap_count = random_between(random, 0, 3);
  for (uint32_t i = 0; i < sched->cap_count; i++) {
    window += random_between(random, 1, kc_random_chance(random, 1, 2) ? 12 : 300);
    sched->cap[i] = window;
  }
}

static void draw_sched(struct kc_sched_config *sched, struct kc_random *random, uint32_t longest)
{
  const uint32_t sizes[4] = {1, 16, 64, random_between(random, 1, 64)};
  const uint32_t slots[4] = {1, random_between(random, 1, 4), random_between(random, 1, 64), 64};
  const uint32_t spare[4] = {0, random_between(random, 0, 8), random_between(random, 0, 200), 8192};
  const uint32_t limits[4] = {random_between(random, 2, 24), random_between(random, 2, longest + 1),
                              2 * longest + 2, 131072};
  sched->role = kc_random_chance(random, 1, 4) ? KC_ROLE_DECODE : KC_ROLE_SERVE;
  sched->page_size = sizes[random_between(random, 0, 3)];
  sched->max_running = slots[random_between(random, 0, 3)];
  sched->max_batched_tokens = sched->max_running + spare[random_between(random, 0, 3)];
  sched->max_model_len = limits[kc_random_chance(random, 1, 5) ? random_between(random, 0, 1)
                                                               : random_between(random, 2, 3)];
  sched->chunked_prefill = !kc_random_chance(random, 1, 3);
  sched->reserve_full_prompt = !kc_random_chance(random, 1, 3);
  draw_windows(sched, random);
}

/* From one page to more than all requests together need. */
static uint32_t draw_pages(const struct test_run *run, struct kc_random *random, uint32_t longest)
{
  const uint32_t one = 2 * longest / run->instance.sched.page_size + 1;
  switch (random_between(random, 0, 5)) {
    case 0: return random_between(random, 1, 4);
    case 1: return random_between(random, 1, one);
    case 2: return random_between(random, one, 2 * one);
    case 3: return random_between(random, one, 8 * one);
    case 4: return one * (REQUESTS_MAX + 1);
    default: return random_between(random, 1, one * REQUESTS_MAX);
  }
}

/* From steps of one picosecond to steps of a second. */
static void draw_cost(struct test_run *run, struct kc_random *random)
{
  const uint32_t kind = random_between(random, 0, 3);
  if (kind == 0) {
    test_cost_constant(&run->cost, kc_random_chance(random, 1, 2) ? KC_PS_PER_MS : 1);
    return;
  }
  test_cost_random(&run->cost, kc_random_u64(random), run->instance.sched.cap_count);
  if (kind != 1) return;
  run->cost.host_step >>= 32;
  for (uint32_t i = 0; i < run->cost.op_count; i++) {
    run->cost.op[i].latency >>= 32;
    run->cost.op[i].byte_fixed >>= 32;
    run->cost.op[i].byte_unit >>= 20;
    run->cost.op[i].byte_write >>= 20;
    run->cost.op[i].flop_unit >>= 20;
  }
}

static uint32_t draw_length(struct kc_random *random, uint32_t longest)
{
  return random_between(random, 1, kc_random_chance(random, 1, 4) ? 3 : longest);
}

static void draw_requests(struct test_run *run, struct kc_random *random, uint32_t longest)
{
  const uint32_t burst = random_between(random, 1, kc_random_chance(random, 1, 2) ? 4 : 64);
  const uint64_t means[4] = {1, 1000, KC_PS_PER_US, 20 * KC_PS_PER_MS};
  const uint64_t mean_ps = means[random_between(random, 0, 3)];
  const bool cut = kc_random_chance(random, 1, 3);
  kc_ps now_ps = kc_random_chance(random, 1, 2) ? 0 : (kc_ps)kc_random_exponential(random, mean_ps);
  for (uint32_t i = 0; i < run->request_count; i++) {
    struct kc_request *r = &run->requests[i];
    if (i > 0 && kc_random_chance(random, 1, burst)) {
      now_ps += (kc_ps)kc_random_exponential(random, mean_ps);
    }
    r->arrival_ps = now_ps;
    r->input_tokens = draw_length(random, longest);
    r->output_tokens = draw_length(random, longest);
    r->max_tokens = cut ? draw_length(random, longest) : r->output_tokens;
  }
}

static void draw_closed(struct test_run *run, struct kc_random *random, uint32_t longest)
{
  const uint32_t most = 2 * run->instance.sched.max_running;
  run->closed_config = (struct kc_closed_config){
      .concurrency = random_between(random, 1, most < REQUESTS_MAX ? most : REQUESTS_MAX),
      .requests = run->request_count,
      .input_tokens = draw_length(random, longest),
      .output_tokens = draw_length(random, longest),
      .mode = kc_random_chance(random, 1, 2) ? KC_CLOSED_WAVE : KC_CLOSED_STEADY};
}

static void draw_run(struct test_run *run, uint64_t seed, uint32_t requests_max, bool may_close)
{
  struct kc_random random;
  kc_random_init(&random, seed, "random-run", 0);
  memset(run, 0, sizeof *run);
  const uint32_t lengths[4] = {4, 20, 100, 400};
  const uint32_t longest = lengths[random_between(&random, 0, 3)];
  test_instance_default(&run->instance, 1);
  draw_sched(&run->instance.sched, &random, longest);
  run->instance.pages = draw_pages(run, &random, longest);
  run->instance.integrity = (enum kc_integrity)random_between(&random, 0, 2);
  run->instance.seed = kc_random_u64(&random);
  draw_cost(run, &random);
  run->closed = kc_random_chance(&random, 1, 4) && may_close;
  const uint32_t count = random_between(&random, 1, REQUESTS_MAX);
  run->request_count = count < requests_max ? count : requests_max;
  run->requests = calloc(run->request_count, sizeof *run->requests);
  if (run->requests == NULL) abort();
  if (run->closed) draw_closed(run, &random, longest);
  else draw_requests(run, &random, longest);
}

void random_run_draw(struct test_run *run, uint64_t seed, uint32_t requests_max)
{
  draw_run(run, seed, requests_max, true);
}

/* ---- sessions ---- */

/* A row that `row` may wait for: none whose chain of predecessors leads back to it. */
static uint32_t draw_predecessor(const struct test_run *run, struct kc_random *random,
                                 uint32_t row, uint32_t reach)
{
  const uint32_t last = run->request_count - 1;
  const uint32_t low = row > reach ? row - reach : 0;
  const bool any = kc_random_chance(random, 1, 8);
  const uint32_t chosen =
      any ? random_between(random, 0, last) : random_between(random, low, row > 0 ? row - 1 : 0);
  uint32_t at = chosen;
  while (at != row && at != KC_SESSION_START) at = run->after[at];
  return at == row ? KC_SESSION_START : chosen;
}

void random_run_draw_sessions(struct test_run *run, uint64_t seed, uint32_t requests_max)
{
  struct kc_random random;
  draw_run(run, seed, requests_max, false);
  kc_random_init(&random, seed, "random-sessions", 0);
  const uint64_t means[4] = {1, 1000, KC_PS_PER_MS, 50 * KC_PS_PER_MS};
  const uint64_t mean_ps = means[random_between(&random, 0, 3)];
  const uint32_t reaches[3] = {1, random_between(&random, 1, 8), 64}; /* chains, shrubs, brooms */
  const uint32_t reach = reaches[random_between(&random, 0, 2)];
  const uint32_t starts = random_between(&random, 2, 16); /* one row in `starts` waits for nobody */
  run->after = calloc(run->request_count, sizeof *run->after);
  run->wait_ps = calloc(run->request_count, sizeof *run->wait_ps);
  if (run->after == NULL || run->wait_ps == NULL) abort();
  for (uint32_t i = 0; i < run->request_count; i++) run->after[i] = KC_SESSION_START;
  for (uint32_t i = 0; i < run->request_count; i++) {
    if (!kc_random_chance(&random, 1, starts)) {
      run->after[i] = draw_predecessor(run, &random, i, reach);
    }
    if (kc_random_chance(&random, 1, 3)) continue; /* wait 0: due with the end itself */
    run->wait_ps[i] = (kc_ps)kc_random_exponential(&random, mean_ps);
  }
}

void random_run_print(const struct test_run *run)
{
  const struct kc_sched_config *s = &run->instance.sched;
  printf("  %s, pages %" PRIu32 " of %" PRIu32 ", running <= %" PRIu32 ", batched <= %" PRIu32
         ", model length %" PRIu64 ", chunked %d, reserve %d, integrity %d, windows %" PRIu32 "\n",
         s->role == KC_ROLE_DECODE ? "decode" : "serve", run->instance.pages, s->page_size,
         s->max_running, s->max_batched_tokens, s->max_model_len, s->chunked_prefill,
         s->reserve_full_prompt, (int)run->instance.integrity, s->cap_count);
  if (run->closed) {
    const struct kc_closed_config *c = &run->closed_config;
    printf("  closed %s: %" PRIu32 " at once, %" PRIu32 " requests of %" PRIu32 " + %" PRIu32 "\n",
           c->mode == KC_CLOSED_WAVE ? "wave" : "steady", c->concurrency, c->requests,
           c->input_tokens, c->output_tokens);
    return;
  }
  for (uint32_t i = 0; i < run->request_count && i < 8; i++) {
    const struct kc_request *r = &run->requests[i];
    printf("  request %" PRIu32 ": at %" PRId64 " ps, %" PRIu32 " + %" PRIu32
           ", max_tokens %" PRIu32 "\n",
           i, r->arrival_ps, r->input_tokens, r->output_tokens, r->max_tokens);
    if (run->after == NULL || run->after[i] == KC_SESSION_START) continue;
    printf("    %" PRId64 " ps after request %" PRIu32 "\n", run->wait_ps[i], run->after[i]);
  }
}
