/* A look-alike: what a trace looks like in figures, without being the trace.
 *
 *   gaps      |a minute|a minute|... cut into runs at quiet places, the runs dealt like cards:
 *             every gap comes once a deal, so rate and unevenness stay, and a burst stays whole
 *   lengths   row -> (rank of input, rank of output), the rows dealt; then the ranks within each
 *             1/512 of all are dealt too: the source's joint histogram, at full resolution
 *   reuse     row -> leading blocks seen before, and how many rows ago. A new row copies so many
 *             leading ids from a row about as long ago; the rest of its ids are fresh
 *
 * What a row could not copy, because no row near had so many blocks, is a debt that later rows pay,
 * so the reuse of the whole holds. Dealing (drawing without putting back) is what keeps sums and
 * correlations when as many rows are made as the source has. Everything here is owned by the call.
 */
#include <stdlib.h>
#include <string.h>

#include "traces/synth/synth_build.h"

enum { RUN_GAPS_MIN = 32, RUNS_WANTED = 32, RANK_BINS = 512, LOOK_AROUND = 4096 };

/* A run is longer than the bursts that matter to a server, where the trace is long enough for many
 * of them. */
#define BUSY_PS (10 * KC_PS_PER_S)
#define RUN_MIN_PS (45 * KC_PS_PER_S)

struct seen {
  uint32_t reused;   /* leading blocks that earlier rows have shown */
  uint32_t rows_ago; /* the latest row that has shown the last of them; 0 = none */
};

struct like {
  const struct kc_trace *source; /* borrowed */
  struct kc_random random;
  uint64_t count;                /* rows of the source */
  uint32_t *deal;                /* rows, as dealt */
  uint32_t *run;                 /* runs of gaps, as dealt */
  uint32_t *run_first;           /* gap that starts each run; runs + 1 entries are in use */
  uint64_t runs, run_at, gap_at; /* next run; next gap within it */
  uint32_t *sorted[2];           /* input and output tokens, ascending */
  uint32_t *rank[2];             /* of each row */
  uint32_t *moved[2];            /* which rank takes the place of each */
  struct seen *seen;             /* NULL without ids */
};

/* ---- fitting ---- */


static int by_u64(const void *a, const void *b)
{
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static uint32_t length_of(const struct kc_trace *trace, uint64_t row, unsigned side)
{
  return side == 0 ? trace->row[row].input_tokens : trace->row[row].output_tokens;
}

static kc_ps gap_of(const struct kc_trace *trace, uint64_t gap)
{
  return trace->row[gap + 1].arrival_ps - trace->row[gap].arrival_ps;
}

/* near[i]: rows within BUSY_PS before and after row i. */
static void fit_near(const struct kc_trace *source, uint32_t *near)
{
  uint64_t low = 0, high = 0;
  for (uint64_t i = 0; i < source->count; i++) {
    const kc_ps at = source->row[i].arrival_ps;
    while (at - source->row[low].arrival_ps > BUSY_PS) low++;
    while (high < source->count && source->row[high].arrival_ps - at <= BUSY_PS) high++;
    near[i] = (uint32_t)(high - low);
    KC_ASSERT(low <= i && i < high);
  }
}

/* Where the run that starts with gap `first` ends: behind a gap of at least the mean length, so
 * that rows of one burst, or of one tick of a coarse clock, stay together; and between one and two
 * lengths on, where least happens around, so that the busiest stretches are not cut apart. */
static uint64_t end_of_run(const struct like *like, const uint32_t *near, uint64_t first,
                           kc_ps mean_ps, kc_ps length_ps)
{
  const struct kc_trace *const source = like->source;
  const uint64_t gaps = like->count - 1;
  const kc_ps start_ps = source->row[first].arrival_ps;
  uint64_t best = gaps;
  for (uint64_t end = first + RUN_GAPS_MIN; end < gaps; end++) {
    const kc_ps length = source->row[end].arrival_ps - start_ps;
    if (length < length_ps || gap_of(source, end - 1) < mean_ps) continue;
    if (best < gaps && length / 2 >= length_ps) break;
    if (best == gaps || near[end] < near[best]) best = end;
  }
  return best;
}

/* Cuts the gaps into runs. */
static void fit_runs(struct like *like, uint32_t *near)
{
  const kc_ps span_ps = like->source->span_ps;
  const uint64_t gaps = like->count - 1;
  const kc_ps share_ps = span_ps / RUNS_WANTED;
  const kc_ps length_ps = share_ps < RUN_MIN_PS ? share_ps : RUN_MIN_PS;
  KC_ASSERT(gaps >= 1);
  fit_near(like->source, near);
  like->runs = 0;
  for (uint64_t first = 0; first < gaps;) {
    like->run_first[like->runs++] = (uint32_t)first;
    first = end_of_run(like, near, first, span_ps / (kc_ps)gaps, length_ps);
  }
  like->run_first[like->runs] = (uint32_t)gaps;
}

/* Ranks of one side; equal lengths rank in the order of the rows. `scratch` holds count entries. */
static void fit_ranks(struct like *like, unsigned side, uint64_t *scratch)
{
  for (uint64_t i = 0; i < like->count; i++) {
    scratch[i] = (uint64_t)length_of(like->source, i, side) << 32 | i;
  }
  qsort(scratch, (size_t)like->count, sizeof *scratch, by_u64);
  for (uint64_t r = 0; r < like->count; r++) {
    like->sorted[side][r] = (uint32_t)(scratch[r] >> 32);
    like->rank[side][scratch[r] & UINT32_MAX] = (uint32_t)r;
    like->moved[side][r] = (uint32_t)r;
  }
}

/* `last_row[id]`: the latest row that has shown the id, KC_TRACE_NONE before. */
static void fit_reuse(struct like *like, uint32_t *last_row)
{
  const struct kc_trace *const source = like->source;
  for (uint64_t i = 0; i < like->count; i++) {
    const uint32_t *const id = source->block + source->column.block_first[i];
    const uint32_t blocks = source->column.block_count[i];
    struct seen *const seen = &like->seen[i];
    while (seen->reused < blocks && last_row[id[seen->reused]] != KC_TRACE_NONE) seen->reused++;
    if (seen->reused > 0) seen->rows_ago = (uint32_t)i - last_row[id[seen->reused - 1]];
    for (uint32_t k = 0; k < blocks; k++) last_row[id[k]] = (uint32_t)i;
  }
}

static void *take(uint64_t count, size_t size)
{
  return calloc(count > 0 ? (size_t)count : 1, size);
}

static bool take_all(struct like *like)
{
  const uint64_t count = like->count;
  bool all = (like->deal = take(count, sizeof *like->deal)) != NULL;
  all = all && (like->run = take(count, sizeof *like->run)) != NULL;
  all = all && (like->run_first = take(count + 1, sizeof *like->run_first)) != NULL;
  for (unsigned side = 0; side < 2; side++) {
    all = all && (like->sorted[side] = take(count, sizeof *like->sorted[side])) != NULL;
    all = all && (like->rank[side] = take(count, sizeof *like->rank[side])) != NULL;
    all = all && (like->moved[side] = take(count, sizeof *like->moved[side])) != NULL;
  }
  if (like->source->prefix_ids) all = all && (like->seen = take(count, sizeof *like->seen)) != NULL;
  return all;
}

static void like_free(struct like *like)
{
  free(like->deal);
  free(like->run);
  free(like->run_first);
  free(like->seen);
  for (unsigned side = 0; side < 2; side++) {
    free(like->sorted[side]);
    free(like->rank[side]);
    free(like->moved[side]);
  }
}

static enum kc_err fit(struct like *like, struct kc_diag *diag)
{
  const uint32_t ids = like->source->block_distinct;
  uint64_t *scratch = take(like->count, sizeof *scratch);
  uint32_t *last_row = take(ids, sizeof *last_row);
  uint32_t *near = take(like->count, sizeof *near);
  const bool all = take_all(like) && scratch != NULL && last_row != NULL && near != NULL;
  if (all) {
    for (unsigned side = 0; side < 2; side++) fit_ranks(like, side, scratch);
    memset(last_row, 0xff, ids * sizeof *last_row);
    if (like->seen != NULL) fit_reuse(like, last_row);
    for (uint64_t i = 0; i < like->count; i++) like->deal[i] = (uint32_t)i;
    fit_runs(like, near);
    for (uint64_t i = 0; i < like->runs; i++) like->run[i] = (uint32_t)i;
  }
  free(scratch);
  free(last_row);
  free(near);
  return all ? KC_OK : kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
}

/* ---- drawing ---- */

/* Fisher and Yates. */
static void shuffle(struct kc_random *random, uint32_t *card, uint64_t count)
{
  for (uint64_t left = count; left > 1; left--) {
    const uint64_t pick = kc_random_below(random, left);
    const uint32_t other = card[left - 1];
    card[left - 1] = card[pick];
    card[pick] = other;
  }
}

/* Time from one row to the next. */
static kc_ps next_gap(struct like *like)
{
  if (like->run_at == like->runs) like->run_at = 0;
  if (like->run_at == 0 && like->gap_at == 0) shuffle(&like->random, like->run, like->runs);
  const uint32_t run = like->run[like->run_at];
  const uint64_t gap = like->run_first[run] + like->gap_at;
  KC_ASSERT(gap < like->count - 1);
  like->gap_at++;
  if (gap + 1 == like->run_first[run + 1]) {
    like->gap_at = 0;
    like->run_at++;
  }
  return gap_of(like->source, gap);
}

/* Deals the rows, and the ranks within each of their bins, anew. */
static void deal_all(struct like *like)
{
  const uint64_t width = like->count / RANK_BINS > 0 ? like->count / RANK_BINS : 1;
  shuffle(&like->random, like->deal, like->count);
  for (unsigned side = 0; side < 2; side++) {
    for (uint64_t first = 0; first < like->count; first += width) {
      const uint64_t left = like->count - first;
      shuffle(&like->random, like->moved[side] + first, left < width ? left : width);
    }
  }
}

/* Another length from the same small stretch of ranks. */
static uint32_t near_length(const struct like *like, unsigned side, uint32_t row)
{
  const uint32_t tokens = like->sorted[side][like->moved[side][like->rank[side][row]]];
  return tokens > 0 ? tokens : 1;
}

/* ---- prefix ids ---- */

/* Rows as made; a row's ids are a leading part of its parent's, then its own. */
struct made {
  uint32_t *block;      /* raw ids of all rows */
  uint64_t *first;      /* of each row, count + 1 */
  uint64_t used, capacity;
  uint64_t fresh;       /* next new id */
  int64_t debt;         /* blocks that should have been copied and were not */
};

static uint64_t blocks_of(const struct made *made, uint64_t row)
{
  return made->first[row + 1] - made->first[row];
}

/* The row with at least `wanted` blocks that is nearest to `rows_ago` rows before `row`, or the one
 * with most blocks among those looked at. */
static uint64_t find_parent(const struct made *made, uint64_t row, uint64_t rows_ago,
                            uint64_t wanted)
{
  const uint64_t centre = rows_ago <= row ? row - rows_ago : 0;
  uint64_t best = centre;
  KC_ASSERT(row > 0);
  for (uint64_t away = 0; away < LOOK_AROUND; away++) {
    const uint64_t candidate[2] = {centre - away, centre + away};
    const bool is_row[2] = {away <= centre, centre + away < row};
    if (!is_row[0] && !is_row[1]) break;
    for (unsigned i = 0; i < 2; i++) {
      if (!is_row[i]) continue;
      if (blocks_of(made, candidate[i]) >= wanted) return candidate[i];
      if (blocks_of(made, candidate[i]) > blocks_of(made, best)) best = candidate[i];
    }
  }
  return best;
}

static enum kc_err reserve(struct made *made, uint64_t blocks, struct kc_diag *diag)
{
  if (made->used + blocks <= made->capacity) return KC_OK;
  const uint64_t capacity = 2 * made->capacity + blocks;
  uint32_t *grown = realloc(made->block, (size_t)capacity * sizeof *grown);
  if (grown == NULL) return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
  made->block = grown;
  made->capacity = capacity;
  return KC_OK;
}

static uint64_t whole_blocks(const struct kc_trace *source, uint32_t tokens)
{
  const uint64_t block_tokens = source->block_tokens;
  return ((uint64_t)tokens + (source->tail == KC_TAIL_CEIL ? block_tokens - 1 : 0)) / block_tokens;
}

/* Ids of row `row`, which follows row `from` of the source. */
static enum kc_err make_ids(struct like *like, struct made *made, uint64_t row, uint32_t from,
                            uint32_t input_tokens, struct kc_diag *diag)
{
  const struct seen seen = like->seen[from];
  const uint64_t from_blocks = like->source->column.block_count[from];
  const uint64_t blocks = from_blocks == 0 ? 0 : whole_blocks(like->source, input_tokens);
  uint64_t copied = 0;
  KC_TRY(reserve(made, blocks, diag));
  if (from_blocks > 0 && seen.reused > 0) {
    const int64_t due = (int64_t)kc_muldiv_round(seen.reused, blocks, from_blocks);
    const int64_t asked = due + made->debt;
    const uint64_t wanted = asked <= 0 ? 0 : (uint64_t)asked < blocks ? (uint64_t)asked : blocks;
    if (wanted > 0 && row > 0) {
      const uint64_t parent = find_parent(made, row, seen.rows_ago, wanted);
      copied = blocks_of(made, parent) < wanted ? blocks_of(made, parent) : wanted;
      if (copied > 0) { /* the array may be empty, and NULL has no bytes to copy */
        memcpy(made->block + made->used, made->block + made->first[parent],
               (size_t)copied * sizeof *made->block);
      }
    }
    made->debt = asked - (int64_t)copied;
  }
  if (made->fresh + blocks >= KC_TRACE_NONE) {
    return kc_fail(diag, KC_ERR_LIMIT, "the trace needs more than 4,294,967,294 prefix ids");
  }
  for (uint64_t k = copied; k < blocks; k++) made->block[made->used + k] = (uint32_t)made->fresh++;
  made->used += blocks;
  made->first[row + 1] = made->used;
  return KC_OK;
}

/* Raw ids are already in order of first appearance; the arrays move to the trace. */
static enum kc_err attach_ids(struct kc_trace *trace, struct made *made,
                              const struct kc_trace *source, struct kc_diag *diag)
{
  const uint64_t rows = trace->count;
  trace->column.block_count = take(rows, sizeof *trace->column.block_count);
  if (trace->column.block_count == NULL) {
    return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
  }
  for (uint64_t i = 0; i < rows; i++) {
    trace->column.block_count[i] = (uint32_t)blocks_of(made, i);
  }
  trace->column.block_first = made->first;
  trace->block = made->block;
  made->first = NULL;
  made->block = NULL;
  trace->block_total = made->used;
  trace->block_distinct = (uint32_t)made->fresh;
  trace->block_tokens = source->block_tokens;
  trace->tail = source->tail;
  trace->prefix_ids = true;
  return KC_OK;
}

/* ---- the whole ---- */

static enum kc_err make_rows(struct like *like, struct kc_trace *trace, uint64_t rows,
                             struct made *made, struct kc_diag *diag)
{
  kc_u128 now = 0;
  for (uint64_t i = 0; i < rows; i++) {
    if (i % like->count == 0) deal_all(like);
    if (i > 0) now += (uint64_t)next_gap(like);
    if (now >= (kc_u128)KC_PS_NEVER) {
      return kc_fail(diag, KC_ERR_LIMIT,
                     "the trace grows longer than 106 days; ask for fewer rows");
    }
    const uint32_t from = like->deal[i % like->count];
    const uint32_t input = near_length(like, 0, from), output = near_length(like, 1, from);
    trace->row[i] = (struct kc_trace_row){(kc_ps)now, input, output};
    if (made->first != NULL) KC_TRY(make_ids(like, made, i, from, input, diag));
  }
  trace->count = rows;
  return KC_OK;
}

static enum kc_err make(struct like *like, struct kc_trace *trace, uint64_t rows,
                        struct kc_diag *diag)
{
  struct made made = {0};
  trace->row = take(rows, sizeof *trace->row);
  bool all = trace->row != NULL;
  if (like->seen != NULL) all = all && (made.first = take(rows + 1, sizeof *made.first)) != NULL;
  enum kc_err err = all ? make_rows(like, trace, rows, &made, diag)
                        : kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
  if (err == KC_OK && like->seen != NULL) err = attach_ids(trace, &made, like->source, diag);
  free(made.block);
  free(made.first);
  if (err == KC_OK) kc_synth_seal(trace);
  return err;
}

enum kc_err kc_synth_like(struct kc_trace *trace, const struct kc_trace *source, uint64_t seed,
                          uint64_t rows, struct kc_diag *diag)
{
  struct like like = {.source = source, .count = source->count};
  KC_ASSERT(rows <= KC_SYNTH_ROWS_MAX);
  memset(trace, 0, sizeof *trace);
  if (source->count < 2) {
    return kc_fail_at(diag, KC_ERR_INPUT, source->path, 0, 0,
                      "a trace to be followed needs at least two requests");
  }
  if (source->count > KC_SYNTH_ROWS_MAX) {
    return kc_fail_at(diag, KC_ERR_LIMIT, source->path, 0, 0,
                      "a trace to be followed has at most %llu requests",
                      (unsigned long long)KC_SYNTH_ROWS_MAX);
  }
  kc_random_init(&like.random, seed, "synth like", 0);
  enum kc_err err = fit(&like, diag);
  if (err == KC_OK) err = make(&like, trace, rows > 0 ? rows : source->count, diag);
  like_free(&like);
  if (err != KC_OK) kc_trace_free(trace);
  return err;
}
