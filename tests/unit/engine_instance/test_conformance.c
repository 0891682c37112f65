/* Golden decision sequences: what each policy must decide, step by step, in situations worked out
 * by hand from what is known of the server.
 *
 *   test_conformance [FILE...]      without: every tests/golden/conformance/<policy>/<name>.txt
 *
 * A file (# starts a comment; each opens with the rule that it follows):
 *
 *   policy vllm-0.19                    first of all; then any of
 *   page_size N, pages N, max_running N, max_batched_tokens N, max_model_len N, threshold N,
 *   chunk N (sglang: chunked_prefill_size), prefill N (max_prefill_tokens), conservativeness X,
 *   queue_limit N, order fcfs|priority|lpm, and on|off for overlap, cache, chunked, reserve, mixed,
 *   decode_role
 *   request at T input N output N [max N] [priority N] [keys FIRST+COUNT ...]
 *   cancel R at T                       request R is given up by its client
 *   show FIELD ...                      what the log says of each step
 *   from T, until T                     the log covers these times only
 *   expect                              and the log follows
 *
 * Requests are numbered from 0 in the order of the file, which is that of arrival. Without `keys`
 * and with cache on, a request has keys of its own. A step takes 10 units of time.
 *
 * The log. "N at T" is step N, formed at T; "- at T" is a forming that only preempted, refused or
 * gave up. Then the fields, each if it has anything to say, in this order:
 *
 *   preempt=3,2          put back while forming, in that order
 *   refuse=5(never_fits) given up while forming
 *   admit=1(8),2         started; in brackets the tokens found in the cache, if any
 *   chunk=1:8+4,2:0+4!   request: first token + tokens; ! is the last chunk
 *   decode=0,4*          decodes of the step, in the order of the batch; * is a ghost
 *   pause=4              decodes that the step leaves out
 *   grant=1:2            pages given, those found in the cache not among them
 *   evict=2              cached pages dropped
 *   free=3 idle=2        pages free, and cached ones that nobody uses, after forming
 *   full                 sglang: batch_is_full
 *   ratio=0.6990         sglang: new_token_ratio
 *
 * "end R STATUS at T" follows the step after which, or before which, request R ended; with a reason
 * in brackets unless it completed.
 */
#include "engine/instance/instance.h"

#include <glob.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/number.h"

enum { REQUESTS_MAX = 256, SLOTS_MAX = 256, RUNS_MAX = 2048, TEXT_MAX = 65536, CANCELS_MAX = 16,
       STEP = 10, STEPS_MAX = 20000, KEYS_MAX = 100000, OWN_KEYS = 50000 };

enum field { F_PREEMPT, F_REFUSE, F_ADMIT, F_CHUNK, F_DECODE, F_PAUSE, F_GRANT, F_EVICT, F_FREE,
             F_IDLE, F_FULL, F_RATIO, FIELDS };
static const char *const field_names[FIELDS] = {"preempt", "refuse", "admit", "chunk", "decode",
                                                "pause", "grant", "evict", "free", "idle", "full",
                                                "ratio"};

struct cancel {
  uint32_t request;
  kc_ps at;
};

struct scene {
  const char *path;
  int line;
  struct kc_instance_config config;
  bool shows[FIELDS];
  kc_ps from, until;
  struct kc_request request[REQUESTS_MAX];
  uint32_t count;
  struct kc_key_run run[RUNS_MAX];
  uint32_t runs;
  uint32_t own_keys;
  struct cancel cancel[CANCELS_MAX];
  uint32_t cancels, cancelled;
  char expected[TEXT_MAX];
  char log[TEXT_MAX];
  size_t log_length;
  /* run */
  struct kc_instance instance;
  uint32_t left[SLOTS_MAX];     /* executor: tokens still to come */
  bool producing[SLOTS_MAX];
  uint32_t finish[SLOTS_MAX];
  bool ended[REQUESTS_MAX];
  char ends[TEXT_MAX];          /* lines of ends since the last flush */
  char refused[1024];
};

static void fail_at(const struct scene *scene, const char *what, const char *word)
{
  fprintf(stderr, "%s:%d: %s: \"%s\"\n", scene->path, scene->line, what, word);
  abort();
}

/* ---- the log ---- */

static void __attribute__((format(printf, 2, 3))) say(struct scene *scene, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(scene->log + scene->log_length, TEXT_MAX - scene->log_length,
                               format, arguments);
  va_end(arguments);
  if (length < 0 || (size_t)length >= TEXT_MAX - scene->log_length) abort();
  scene->log_length += (size_t)length;
}

static bool covers(const struct scene *scene, kc_ps at)
{
  return at >= scene->from && at <= scene->until;
}

static void flush_ends(struct scene *scene)
{
  say(scene, "%s", scene->ends);
  scene->ends[0] = '\0';
}

/* ---- executor: steps of equal length ---- */

static enum kc_err run_step(void *context, const struct kc_step *step,
                            struct kc_step_result *result, struct kc_diag *diag)
{
  struct scene *scene = context;
  (void)diag;
  for (uint32_t i = 0; i < step->leave_count; i++) scene->producing[step->leave[i]] = false;
  bool waits[SLOTS_MAX] = {false};
  for (uint32_t i = 0; i < step->pause_count; i++) waits[step->pause[i]] = true;
  for (uint32_t i = 0; i < step->join_count; i++) {
    const struct kc_join *join = &step->join[i];
    const struct kc_request *r = &scene->request[join->request];
    scene->left[join->slot] =
        kc_request_output(r, scene->config.sched.max_model_len) - join->outputs;
    scene->producing[join->slot] = join->kv_in_place;
  }
  bool prompt[SLOTS_MAX] = {false};
  for (uint32_t i = 0; i < step->chunk_count; i++) {
    if (step->chunk[i].last) prompt[step->chunk[i].slot] = true;
  }
  *result = (struct kc_step_result){.duration_ps = STEP, .finish = scene->finish};
  const struct kc_batch *batch = &scene->instance.batch;
  for (uint32_t s = batch->running.head; s != KC_SLOT_NONE; s = batch->slot[s].run_next) {
    const bool token = prompt[s] || (scene->producing[s] && step->decoding && !waits[s]);
    if (prompt[s]) scene->producing[s] = true;
    if (!token || --scene->left[s] > 0) continue;
    scene->producing[s] = false;
    scene->finish[result->finish_count++] = s;
  }
  return KC_OK;
}

/* ---- observer ---- */

static void on_step(void *context, const struct kc_step_report *report)
{
  (void)context;
  assert_int_equal(report->end_ps - report->start_ps, STEP);
}

static void on_gap(void *context, kc_ps gap_ps)
{
  (void)context;
  assert_true(gap_ps > 0);
}

static void on_end(void *context, const struct kc_outcome *outcome)
{
  struct scene *scene = context;
  char line[128];
  scene->ended[outcome->request] = true;
  if (outcome->reason == KC_REASON_NONE) {
    snprintf(line, sizeof line, "end %" PRIu32 " %s at %" PRId64 "\n", outcome->request,
             kc_status_name(outcome->status), outcome->end_ps);
  } else {
    snprintf(line, sizeof line, "end %" PRIu32 " %s(%s) at %" PRId64 "\n", outcome->request,
             kc_status_name(outcome->status), kc_reason_name(outcome->reason), outcome->end_ps);
  }
  if (strlen(scene->ends) + strlen(line) >= TEXT_MAX) abort();
  if (covers(scene, outcome->end_ps)) {
    memcpy(scene->ends + strlen(scene->ends), line, strlen(line) + 1);
  }
  if (outcome->reason == KC_REASON_NONE || outcome->reason == KC_REASON_CANCELLED) return;
  snprintf(line, sizeof line, "%s%" PRIu32 "(%s)", scene->refused[0] ? "," : "", outcome->request,
           kc_reason_name(outcome->reason));
  if (strlen(scene->refused) + strlen(line) >= sizeof scene->refused) abort();
  memcpy(scene->refused + strlen(scene->refused), line, strlen(line) + 1);
}

/* ---- one line of the log ---- */

struct before {
  bool held[SLOTS_MAX];
  uint64_t order[SLOTS_MAX];
  uint32_t request[SLOTS_MAX];
};

static void look_before(const struct scene *scene, struct before *before)
{
  const struct kc_batch *batch = &scene->instance.batch;
  for (uint32_t s = 0; s < batch->config.max_running; s++) {
    const struct kc_slot *slot = &batch->slot[s];
    before->held[s] = slot->state != KC_SLOT_FREE && !slot->ghost;
    before->order[s] = slot->order;
    before->request[s] = slot->request;
  }
}

static const char *comma(bool *first)
{
  const char *text = *first ? "" : ",";
  *first = false;
  return text;
}

static void say_preempted(struct scene *scene, const struct before *before)
{
  const struct kc_batch *batch = &scene->instance.batch;
  bool first = true;
  if (!scene->shows[F_PREEMPT]) return;
  for (uint32_t i = 0; i < batch->step.leave_count; i++) {
    const uint32_t s = batch->step.leave[i];
    if (!before->held[s] || scene->ended[before->request[s]]) continue;
    if (first) say(scene, " preempt=");
    say(scene, "%s%" PRIu32, comma(&first), before->request[s]);
  }
}

static void say_joins_and_chunks(struct scene *scene)
{
  const struct kc_batch *batch = &scene->instance.batch;
  const struct kc_step *step = &batch->step;
  bool first = true;
  for (uint32_t i = 0; i < step->join_count && scene->shows[F_ADMIT]; i++) {
    if (first) say(scene, " admit=");
    say(scene, "%s%" PRIu32, comma(&first), step->join[i].request);
    if (step->join[i].cached > 0) say(scene, "(%" PRIu32 ")", step->join[i].cached);
  }
  first = true;
  for (uint32_t i = 0; i < step->chunk_count && scene->shows[F_CHUNK]; i++) {
    const struct kc_chunk *c = &step->chunk[i];
    if (first) say(scene, " chunk=");
    say(scene, "%s%" PRIu32 ":%" PRIu32 "+%" PRIu32 "%s", comma(&first),
        batch->slot[c->slot].request, c->start, c->count, c->last ? "!" : "");
  }
}

static void say_decodes(struct scene *scene)
{
  const struct kc_batch *batch = &scene->instance.batch;
  bool first = true;
  for (uint32_t s = batch->running.head; s != KC_SLOT_NONE; s = batch->slot[s].run_next) {
    const struct kc_slot *slot = &batch->slot[s];
    if (!scene->shows[F_DECODE] || !batch->step.decoding) break;
    if (slot->state != KC_SLOT_DECODE || slot->paused) continue;
    if (first) say(scene, " decode=");
    say(scene, "%s%" PRIu32 "%s", comma(&first), slot->request, slot->ghost ? "*" : "");
  }
  first = true;
  for (uint32_t i = 0; i < batch->step.pause_count && scene->shows[F_PAUSE]; i++) {
    if (first) say(scene, " pause=");
    say(scene, "%s%" PRIu32, comma(&first), batch->slot[batch->pause[i]].request);
  }
}

static void say_pages(struct scene *scene)
{
  const struct kc_batch *batch = &scene->instance.batch;
  const struct kc_step *step = &batch->step;
  const struct kc_pool *pool = &scene->instance.pool;
  bool first = true;
  for (uint32_t i = 0; i < step->grant_count && scene->shows[F_GRANT]; i++) {
    const struct kc_grant *g = &step->grant[i];
    bool found = false; /* in the cache */
    for (uint32_t j = 0; j < step->join_count; j++) {
      found |= step->join[j].slot == g->slot && step->join[j].cached > 0 && g->first == 0;
    }
    if (found) continue;
    if (first) say(scene, " grant=");
    say(scene, "%s%" PRIu32 ":%" PRIu32, comma(&first), batch->slot[g->slot].request, g->count);
  }
  const uint64_t evicted = scene->instance.report.pages_evicted;
  if (scene->shows[F_EVICT] && evicted > 0) say(scene, " evict=%" PRIu64, evicted);
  if (scene->shows[F_FREE]) say(scene, " free=%" PRIu32, pool->free_count);
  if (scene->shows[F_IDLE]) say(scene, " idle=%" PRIu32, pool->idle_count);
  if (scene->shows[F_FULL] && batch->sglang.batch_is_full) say(scene, " full");
  if (scene->shows[F_RATIO]) say(scene, " ratio=%.4f", batch->sglang.new_token_ratio);
}

/* ---- a run ---- */

static void arrive_and_cancel(struct scene *scene, kc_ps until)
{
  struct kc_instance *instance = &scene->instance;
  for (;;) {
    const uint32_t next = instance->batch.queue.arrived;
    const kc_ps arrival = next < scene->count ? scene->request[next].arrival_ps : KC_PS_NEVER;
    const kc_ps cancel = scene->cancelled < scene->cancels
                             ? scene->cancel[scene->cancelled].at
                             : KC_PS_NEVER;
    if (arrival <= until && arrival <= cancel) {
      kc_instance_arrive(instance);
    } else if (cancel < until || (cancel == until && !instance->in_step)) {
      const struct cancel *c = &scene->cancel[scene->cancelled++];
      kc_instance_cancel(instance, c->request, c->at, KC_STATUS_CANCELLED);
    } else {
      return;
    }
  }
}

static void say_step(struct scene *scene, const struct before *before, uint64_t index, kc_ps at)
{
  const struct kc_instance *instance = &scene->instance;
  if (instance->in_step) say(scene, "%" PRIu64 " at %" PRId64, index, at);
  else say(scene, "- at %" PRId64, at);
  say_preempted(scene, before);
  if (scene->shows[F_REFUSE] && scene->refused[0]) say(scene, " refuse=%s", scene->refused);
  if (instance->in_step) {
    say_joins_and_chunks(scene);
    say_decodes(scene);
    say_pages(scene);
  }
  say(scene, "\n");
}

static void one_step(struct scene *scene)
{
  struct kc_instance *instance = &scene->instance;
  struct before before;
  struct kc_diag diag;
  const uint64_t index = instance->batch.step.index;
  flush_ends(scene);
  scene->refused[0] = '\0';
  look_before(scene, &before);
  const kc_ps at = instance->clock_ps;
  assert_int_equal(kc_instance_begin_step(instance, &diag), KC_OK);
  if (covers(scene, at)) say_step(scene, &before, index, at);
  assert_true(kc_batch_valid(&instance->batch));
  if (instance->batch.cache != NULL) assert_true(kc_prefix_cache_valid(&instance->cache));
  if (!instance->in_step) return;
  arrive_and_cancel(scene, instance->report.end_ps);
  kc_instance_end_step(instance);
}

static void play(struct scene *scene)
{
  struct kc_instance *instance = &scene->instance;
  struct kc_arena arena;
  struct kc_diag diag;
  const struct kc_executor executor = {.context = scene, .name = "constant", .run = run_step};
  const struct kc_observer observer = {
      .context = scene, .on_step = on_step, .on_gap = on_gap, .on_end = on_end};
  assert_int_equal(kc_arena_init(&arena, kc_instance_need(&scene->config), &diag), KC_OK);
  if (kc_instance_init(instance, &scene->config, scene->request, &executor, &observer, &arena,
                       &diag) != KC_OK) {
    fail_at(scene, "bad configuration", diag.text);
  }
  for (int steps = 0; steps < STEPS_MAX; steps++) {
    arrive_and_cancel(scene, instance->clock_ps);
    if (kc_instance_busy(instance)) {
      one_step(scene);
    } else if (instance->batch.queue.arrived < scene->count) {
      kc_instance_arrive(instance);
    } else {
      break;
    }
  }
  flush_ends(scene);
  assert_false(kc_instance_busy(instance));
  assert_int_equal(kc_instance_finish(instance, &diag), KC_OK);
  kc_arena_deinit(&arena);
}

/* ---- reading ---- */

static char *next_word(char **rest)
{
  char *word = *rest + strspn(*rest, " \t\n");
  if (*word == '\0' || *word == '#') return NULL;
  char *end = word + strcspn(word, " \t\n");
  *rest = *end == '\0' ? end : end + 1;
  *end = '\0';
  return word;
}

static uint64_t number(struct scene *scene, char **rest)
{
  const char *word = next_word(rest);
  uint64_t value = 0;
  if (word == NULL || !kc_parse_u64(word, strlen(word), &value)) {
    fail_at(scene, "a number is wanted", word ? word : "");
  }
  return value;
}

static bool on_or_off(struct scene *scene, char **rest)
{
  const char *word = next_word(rest);
  if (word != NULL && strcmp(word, "on") == 0) return true;
  if (word == NULL || strcmp(word, "off") != 0) fail_at(scene, "on or off", word ? word : "");
  return false;
}

static void read_keys(struct scene *scene, struct kc_request *r, char *word)
{
  char *plus = strchr(word, '+');
  uint64_t first = 0, count = 0;
  if (plus == NULL || scene->runs == RUNS_MAX) fail_at(scene, "FIRST+COUNT", word);
  if (!kc_parse_u64(word, (size_t)(plus - word), &first) ||
      !kc_parse_u64(plus + 1, strlen(plus + 1), &count)) {
    fail_at(scene, "FIRST+COUNT", word);
  }
  scene->run[scene->runs] =
      (struct kc_key_run){.first = (uint32_t)first, .count = (uint32_t)count};
  if (r->run_count++ == 0) r->run = &scene->run[scene->runs];
  scene->runs++;
}

/* Keys that nobody else has, for the pages that `keys` did not name. */
static void own_keys(struct scene *scene, struct kc_request *r)
{
  const uint32_t pages = (r->input_tokens + r->output_tokens) / scene->config.sched.page_size;
  uint32_t named = 0;
  for (uint32_t i = 0; i < r->run_count; i++) named += r->run[i].count;
  if (named >= pages) return;
  if (scene->runs == RUNS_MAX) abort();
  scene->run[scene->runs] =
      (struct kc_key_run){.first = OWN_KEYS + scene->own_keys, .count = pages - named};
  scene->own_keys += pages - named;
  if (r->run_count++ == 0) r->run = &scene->run[scene->runs];
  scene->runs++;
}

static void read_request(struct scene *scene, char *rest)
{
  struct kc_request *r = &scene->request[scene->count++];
  if (scene->count > REQUESTS_MAX) abort();
  for (char *word = next_word(&rest); word != NULL; word = next_word(&rest)) {
    if (strcmp(word, "at") == 0) {
      r->arrival_ps = (kc_ps)number(scene, &rest);
    } else if (strcmp(word, "input") == 0) {
      r->input_tokens = (uint32_t)number(scene, &rest);
    } else if (strcmp(word, "output") == 0) {
      r->output_tokens = (uint32_t)number(scene, &rest);
    } else if (strcmp(word, "max") == 0) {
      r->max_tokens = (uint32_t)number(scene, &rest);
    } else if (strcmp(word, "priority") == 0) {
      r->priority = (int32_t)number(scene, &rest);
    } else if (strcmp(word, "keys") == 0) {
      for (word = next_word(&rest); word != NULL; word = next_word(&rest)) {
        read_keys(scene, r, word);
      }
    } else {
      fail_at(scene, "unknown in a request", word);
    }
  }
  if (r->max_tokens == 0) r->max_tokens = r->output_tokens;
  if (scene->config.sched.prefix_cache) own_keys(scene, r);
}

static void read_cancel(struct scene *scene, char *rest)
{
  struct cancel *c = &scene->cancel[scene->cancels++];
  if (scene->cancels > CANCELS_MAX) abort();
  c->request = (uint32_t)number(scene, &rest);
  if (next_word(&rest) == NULL) fail_at(scene, "cancel R at T", "");
  c->at = (kc_ps)number(scene, &rest);
}

static void read_show(struct scene *scene, char *rest)
{
  for (char *word = next_word(&rest); word != NULL; word = next_word(&rest)) {
    int field = 0;
    while (field < FIELDS && strcmp(word, field_names[field]) != 0) field++;
    if (field == FIELDS) fail_at(scene, "unknown field", word);
    scene->shows[field] = true;
  }
}

static void read_order(struct scene *scene, char *rest)
{
  const char *word = next_word(&rest);
  int order = KC_ORDER_FCFS;
  while (order <= KC_ORDER_LPM && strcmp(word, kc_queue_order_name((enum kc_queue_order)order))) {
    order++;
  }
  if (order > KC_ORDER_LPM) fail_at(scene, "unknown order", word);
  scene->config.sched.order = (enum kc_queue_order)order;
}

static void read_policy(struct scene *scene, char *rest)
{
  const char *word = next_word(&rest);
  scene->config.policy = word == NULL ? NULL : kc_policy_find(word);
  if (scene->config.policy == NULL) fail_at(scene, "unknown policy", word ? word : "");
  scene->config.policy->defaults(&scene->config.sched, UINT64_C(80) << 30, false);
  scene->config.sched.overlap = false;
  scene->config.sched.key_count = KEYS_MAX;
  scene->config.sched.max_model_len = 1000000;
}

static bool read_number(struct scene *scene, const char *word, char **rest)
{
  struct kc_sched_config *s = &scene->config.sched;
  const struct { const char *name; uint32_t *to; } numbers[] = {
      {"page_size", &s->page_size}, {"pages", &scene->config.pages},
      {"max_running", &s->max_running}, {"max_batched_tokens", &s->max_batched_tokens},
      {"threshold", &s->long_prefill_token_threshold}, {"chunk", &s->chunked_prefill_size},
      {"prefill", &s->max_prefill_tokens}, {"queue_limit", &scene->config.queue_limit}};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    if (strcmp(word, numbers[i].name) != 0) continue;
    *numbers[i].to = (uint32_t)number(scene, rest);
    return true;
  }
  if (strcmp(word, "max_model_len") == 0) s->max_model_len = number(scene, rest);
  else if (strcmp(word, "from") == 0) scene->from = (kc_ps)number(scene, rest);
  else if (strcmp(word, "until") == 0) scene->until = (kc_ps)number(scene, rest);
  else return false;
  return true;
}

static bool read_switch(struct scene *scene, const char *word, char **rest)
{
  struct kc_sched_config *s = &scene->config.sched;
  const struct { const char *name; bool *to; } switches[] = {
      {"overlap", &s->overlap}, {"cache", &s->prefix_cache}, {"chunked", &s->chunked_prefill},
      {"reserve", &s->reserve_full_prompt}, {"mixed", &s->mixed_chunk}};
  for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
    if (strcmp(word, switches[i].name) != 0) continue;
    *switches[i].to = on_or_off(scene, rest);
    return true;
  }
  if (strcmp(word, "decode_role") != 0) return false;
  s->role = on_or_off(scene, rest) ? KC_ROLE_DECODE : KC_ROLE_SERVE;
  return true;
}

static void read_line(struct scene *scene, char *line)
{
  char *rest = line;
  const char *word = next_word(&rest);
  if (word == NULL) return;
  if (strcmp(word, "policy") == 0) read_policy(scene, rest);
  else if (strcmp(word, "request") == 0) read_request(scene, rest);
  else if (strcmp(word, "cancel") == 0) read_cancel(scene, rest);
  else if (strcmp(word, "show") == 0) read_show(scene, rest);
  else if (strcmp(word, "order") == 0) read_order(scene, rest);
  else if (strcmp(word, "conservativeness") == 0) {
    const char *value = next_word(&rest);
    double x = 0;
    if (value == NULL || !kc_parse_double(value, strlen(value), &x)) abort();
    scene->config.sched.schedule_conservativeness = x;
  } else if (!read_number(scene, word, &rest) && !read_switch(scene, word, &rest)) {
    fail_at(scene, "unknown word", word);
  }
}

/* The log of the file without comments and blank lines. */
static void read_expected(struct scene *scene, const char *line)
{
  size_t length = strcspn(line, "#\n");
  const size_t held = strlen(scene->expected);
  while (length > 0 && line[length - 1] == ' ') length--;
  if (length == 0) return;
  if (held + length + 2 > TEXT_MAX) abort();
  memcpy(scene->expected + held, line, length);
  memcpy(scene->expected + held + length, "\n", 2);
}

static void read_scene(struct scene *scene, const char *path)
{
  char line[1024];
  bool expecting = false;
  FILE *file = fopen(path, "r");
  memset(scene, 0, sizeof *scene);
  scene->path = path;
  scene->config.seed = 1;
  scene->until = KC_PS_NEVER;
  scene->config.requests_max = REQUESTS_MAX;
  scene->config.integrity = KC_INTEGRITY_PARANOID;
  if (file == NULL) fail_at(scene, "cannot open", path);
  while (fgets(line, sizeof line, file) != NULL) {
    scene->line++;
    if (expecting) read_expected(scene, line);
    else if (strncmp(line, "expect", 6) == 0) expecting = true;
    else read_line(scene, line);
  }
  fclose(file);
  if (!expecting) fail_at(scene, "no expectation", path);
}

static bool check_file(const char *path)
{
  static struct scene scene; /* too large for a stack */
  read_scene(&scene, path);
  play(&scene);
  if (strcmp(scene.log, scene.expected) == 0) return true;
  printf("%s\n--- by hand\n%s--- by the program\n%s", path, scene.expected, scene.log);
  return false;
}

static void all_situations(void **state)
{
  const char *source = getenv("KVCAP_SOURCE");
  char pattern[512];
  glob_t found;
  size_t wrong = 0;
  (void)state;
  snprintf(pattern, sizeof pattern, "%s/tests/golden/conformance/*/*.txt", source ? source : ".");
  assert_int_equal(glob(pattern, 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; i++) wrong += !check_file(found.gl_pathv[i]);
  print_message("%zu situations, %zu differ\n", found.gl_pathc, wrong);
  assert_true(found.gl_pathc >= 50);
  globfree(&found);
  assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_situations)};
  int wrong = 0;
  if (argc == 1) return cmocka_run_group_tests(tests, NULL, NULL);
  for (int i = 1; i < argc; i++) wrong += !check_file(argv[i]);
  return wrong > 0;
}
