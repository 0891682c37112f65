/* The order of the steps, and what each option means.
 *
 * Rows are chosen before times are changed, so that a window is one of the trace as recorded; the
 * idle cap comes before the rate, so that a cap is in recorded time too. Spread comes last of
 * the times: it must not be stretched. All choosing of rows fills one keep[] byte a row, then the
 * trace is compacted once per kind of choice: window and limits count rows that filters left. */
#include "traces/transform/transform.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/random.h"

struct change_words {
  const char *name, *text;
};

static const struct change_words change_words[KC_CHANGES] = {
    [KC_CHANGE_FAILED_DROPPED] = {"failed_dropped", "failed rows dropped"},
    [KC_CHANGE_CANCELLED_DROPPED] = {"cancelled_dropped", "cancelled rows dropped"},
    [KC_CHANGE_WINDOW_DROPPED] = {"window_dropped", "rows outside the window dropped"},
    [KC_CHANGE_SKIP_DROPPED] = {"skip_dropped", "rows skipped at the start"},
    [KC_CHANGE_LIMIT_DROPPED] = {"limit_dropped", "rows beyond the limit dropped"},
    [KC_CHANGE_SAMPLE_DROPPED] = {"sample_dropped", "rows of sessions outside the sample dropped"},
    [KC_CHANGE_SHARD_DROPPED] = {"shard_dropped", "rows of other shards dropped"},
    [KC_CHANGE_RELINKED] = {"relinked", "rows wait for an earlier row, theirs being dropped"},
    [KC_CHANGE_DETACHED] =
        {"detached", "rows start at their arrival: nothing they waited for is kept"},
    [KC_CHANGE_OPENED] = {"opened", "rows no longer wait for another and start at their arrival"},
    [KC_CHANGE_GAPS_CAPPED] = {"gaps_capped", "stretches without any active request cut"},
    [KC_CHANGE_GAP_REMOVED_MS] = {"gap_removed_ms", "ms of idle time taken out"},
    [KC_CHANGE_RATE_SCALED] = {"rate_scaled", "arrivals moved by the new rate"},
    [KC_CHANGE_SPREAD] = {"spread", "rows spread within their clock tick"},
    [KC_CHANGE_SHIFTED_MS] = {"shifted_ms", "ms that the first kept arrival was moved to 0"},
    [KC_CHANGE_ANONYMISED] = {"anonymised", "names of kinds replaced"},
};

const char *kc_trace_change_name(enum kc_trace_change change)
{
  KC_ASSERT((unsigned)change < KC_CHANGES);
  return change_words[change].name;
}

const char *kc_trace_change_text(enum kc_trace_change change)
{
  KC_ASSERT((unsigned)change < KC_CHANGES);
  return change_words[change].text;
}

void kc_transform_default(struct kc_transform *transform)
{
  KC_ASSERT(transform != NULL);
  *transform = (struct kc_transform){.to_ps = KC_PS_NEVER, .limit_rows = UINT64_MAX,
                                     .sample = {1, 1}, .shard = 1, .shards = 1,
                                     .idle_cap_ps = KC_PS_NEVER, .rate = {1, 1}, .seed = 1};
}

/* ---- fractions ---- */

/* Digits at *text into *value; false without digits or above 10^18. */
static bool take_digits(const char **text, uint64_t *value, unsigned *digits)
{
  *digits = 0;
  for (; **text >= '0' && **text <= '9'; ++*text, ++*digits) {
    if (*value >= UINT64_C(100000000000000000)) return false;
    *value = *value * 10 + (uint64_t)(**text - '0');
  }
  return *digits > 0;
}

static void reduce(struct kc_fraction *fraction)
{
  uint64_t a = fraction->numerator, b = fraction->denominator;
  while (b != 0) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  KC_ASSERT(a > 0);
  fraction->numerator /= a;
  fraction->denominator /= a;
}

bool kc_fraction_parse(const char *text, struct kc_fraction *fraction)
{
  const uint64_t term_max = 1000000000;
  struct kc_fraction read = {0, 1};
  unsigned digits = 0;
  KC_ASSERT(text != NULL && fraction != NULL);
  if (!take_digits(&text, &read.numerator, &digits)) return false;
  if (*text == '/') {
    text++;
    read.denominator = 0;
    if (!take_digits(&text, &read.denominator, &digits)) return false;
  } else if (*text == '.') {
    text++;
    if (!take_digits(&text, &read.numerator, &digits) || digits > 17) return false;
    while (digits-- > 0) read.denominator *= 10;
  }
  if (*text != '\0' || read.numerator == 0 || read.denominator == 0) return false;
  reduce(&read);
  if (read.numerator > term_max || read.denominator > term_max) return false;
  *fraction = read;
  return true;
}

/* ---- choosing rows ---- */

static void drop(uint8_t *keep, uint64_t i, enum kc_trace_change reason,
                 uint64_t change[KC_CHANGES])
{
  if (keep[i] == 0) return; /* counted once, by the first reason */
  keep[i] = 0;
  change[reason]++;
}

static void choose_flags(struct kc_trace *trace, const struct kc_transform *transform,
                         uint8_t *keep, uint64_t change[KC_CHANGES])
{
  const uint8_t *const flags = trace->column.flags;
  for (uint64_t i = 0; flags != NULL && i < trace->count; i++) {
    if (transform->drop_failed && (flags[i] & KC_ROW_FAILED) != 0) {
      drop(keep, i, KC_CHANGE_FAILED_DROPPED, change);
    } else if (transform->drop_cancelled && (flags[i] & KC_ROW_CANCELLED) != 0) {
      drop(keep, i, KC_CHANGE_CANCELLED_DROPPED, change);
    }
  }
}

static void choose_window(struct kc_trace *trace, const struct kc_transform *transform,
                          uint8_t *keep, uint64_t change[KC_CHANGES])
{
  for (uint64_t i = 0; i < trace->count; i++) {
    const kc_ps arrival = trace->row[i].arrival_ps;
    if (arrival < transform->from_ps || arrival >= transform->to_ps) {
      drop(keep, i, KC_CHANGE_WINDOW_DROPPED, change);
    }
  }
}

static void choose_count(struct kc_trace *trace, const struct kc_transform *transform,
                         uint8_t *keep, uint64_t change[KC_CHANGES])
{
  for (uint64_t i = 0; i < trace->count; i++) {
    if (i < transform->skip_rows) {
      drop(keep, i, KC_CHANGE_SKIP_DROPPED, change);
    } else if (i - transform->skip_rows >= transform->limit_rows) {
      drop(keep, i, KC_CHANGE_LIMIT_DROPPED, change);
    }
  }
}

static uint32_t session_of(const struct kc_trace *trace, uint64_t i)
{
  return trace->column.session == NULL ? KC_TRACE_NONE : trace->column.session[i];
}

/* A session stays or goes whole; a row without one is a session of its own. */
static void choose_sample(struct kc_trace *trace, const struct kc_transform *transform,
                          uint8_t *keep, uint64_t change[KC_CHANGES])
{
  for (uint64_t i = 0; i < trace->count; i++) {
    const uint32_t session = session_of(trace, i);
    struct kc_random random;
    if (session == KC_TRACE_NONE) {
      kc_random_init(&random, transform->seed, "trace sample row", i);
    } else {
      kc_random_init(&random, transform->seed, "trace sample session", session);
    }
    if (!kc_random_chance(&random, transform->sample.numerator, transform->sample.denominator)) {
      drop(keep, i, KC_CHANGE_SAMPLE_DROPPED, change);
    }
  }
}

/* Sessions go round the shards in order of appearance, rows without one by their own count. */
static void choose_shard(struct kc_trace *trace, const struct kc_transform *transform,
                         uint8_t *keep, uint64_t change[KC_CHANGES])
{
  uint64_t alone = 0;
  KC_ASSERT(transform->shard >= 1 && transform->shard <= transform->shards);
  for (uint64_t i = 0; i < trace->count; i++) {
    const uint32_t session = session_of(trace, i);
    const uint64_t unit = session == KC_TRACE_NONE ? alone++ : session;
    if (unit % transform->shards != transform->shard - 1) {
      drop(keep, i, KC_CHANGE_SHARD_DROPPED, change);
    }
  }
}

typedef void choose_rows(struct kc_trace *trace, const struct kc_transform *transform,
                         uint8_t *keep, uint64_t change[KC_CHANGES]);

static enum kc_err choose(struct kc_trace *trace, const struct kc_transform *transform,
                          choose_rows *rule, uint8_t *keep, uint64_t change[KC_CHANGES],
                          struct kc_diag *diag)
{
  memset(keep, 1, trace->count);
  rule(trace, transform, keep, change);
  return kc_trace_keep_rows(trace, keep, change, diag);
}

static enum kc_err choose_all(struct kc_trace *trace, const struct kc_transform *transform,
                              uint8_t *keep, uint64_t change[KC_CHANGES], struct kc_diag *diag)
{
  const struct kc_fraction *const sample = &transform->sample;
  if (transform->drop_failed || transform->drop_cancelled) {
    KC_TRY(choose(trace, transform, choose_flags, keep, change, diag));
  }
  if (transform->from_ps > 0 || transform->to_ps != KC_PS_NEVER) {
    KC_TRY(choose(trace, transform, choose_window, keep, change, diag));
  }
  if (transform->skip_rows > 0 || transform->limit_rows != UINT64_MAX) {
    KC_TRY(choose(trace, transform, choose_count, keep, change, diag));
  }
  if (sample->numerator != sample->denominator) {
    KC_TRY(choose(trace, transform, choose_sample, keep, change, diag));
  }
  if (transform->shards > 1) {
    KC_TRY(choose(trace, transform, choose_shard, keep, change, diag));
  }
  return KC_OK;
}

/* ---- all ---- */

static void open_loop(struct kc_trace *trace, uint64_t change[KC_CHANGES])
{
  struct kc_trace_columns *const column = &trace->column;
  for (uint64_t i = 0; column->after != NULL && i < trace->count; i++) {
    change[KC_CHANGE_OPENED] += column->after[i] != KC_TRACE_NONE;
  }
  free(column->after);
  free(column->wait_ps);
  column->after = NULL;
  column->wait_ps = NULL;
}

static enum kc_err check(const struct kc_transform *transform, struct kc_diag *diag)
{
  if (transform->shards < 1 || transform->shard < 1 || transform->shard > transform->shards) {
    return kc_fail(diag, KC_ERR_USAGE, "shard %llu of %llu does not exist; expected K/N with K "
                   "from 1 to N", (unsigned long long)transform->shard,
                   (unsigned long long)transform->shards);
  }
  if (transform->sample.numerator > transform->sample.denominator) {
    return kc_fail(diag, KC_ERR_USAGE, "a sample of %llu/%llu is more than the whole; expected a "
                   "share up to 1", (unsigned long long)transform->sample.numerator,
                   (unsigned long long)transform->sample.denominator);
  }
  if (transform->from_ps >= transform->to_ps) {
    return kc_fail(diag, KC_ERR_USAGE, "the window is empty: its end is not after its start");
  }
  if (transform->limit_rows == 0) {
    return kc_fail(diag, KC_ERR_USAGE, "a limit of 0 rows leaves nothing; expected 1 or more");
  }
  return KC_OK;
}

static enum kc_err change_times(struct kc_trace *trace, const struct kc_transform *transform,
                                uint64_t change[KC_CHANGES], struct kc_diag *diag)
{
  KC_ASSERT(trace->count > 0);
  if (transform->open_loop) open_loop(trace, change);
  if (transform->idle_cap_ps != KC_PS_NEVER) {
    KC_TRY(kc_trace_cap_idle(trace, transform->idle_cap_ps, change, diag));
  }
  KC_TRY(kc_trace_scale_rate(trace, transform->rate, change, diag));
  return kc_trace_spread(trace, transform->spread_ps, transform->seed, change, diag);
}

enum kc_err kc_trace_transform(struct kc_trace *trace, const struct kc_transform *transform,
                               uint64_t change[KC_CHANGES], struct kc_diag *diag)
{
  KC_ASSERT(trace != NULL && trace->count > 0);
  KC_ASSERT(transform != NULL);
  memset(change, 0, KC_CHANGES * sizeof *change);
  KC_TRY(check(transform, diag));
  uint8_t *const keep = malloc(trace->count);
  if (keep == NULL) {
    return kc_fail(diag, KC_ERR_MEMORY, "out of memory: transforming a trace of %llu rows",
                   (unsigned long long)trace->count);
  }
  const enum kc_err err = choose_all(trace, transform, keep, change, diag);
  free(keep);
  KC_TRY(err);
  KC_TRY(change_times(trace, transform, change, diag));
  if (transform->anonymise) KC_TRY(kc_trace_anonymise(trace, transform->seed, change, diag));
  return KC_OK;
}
