/* Page keys of a workload's requests (see contents.h). Set-up code: it may allocate.
 *
 *   row          one kc_content per row, into `run`
 *   run          all runs, row after row; while it grows, rows hold where theirs begin
 *   first_key    ids: (salt, block) -> key of the first page that ends in the block; the pages of
 *                one block have consecutive keys. KC_KEY_NONE until the block is first met
 *
 * Keys are handed out in order of first appearance, so a prompt that is all new is one run, and a
 * long conversation is about one run a turn.
 */
#include "sim/scenario/contents.h"

#include <stdlib.h>
#include <string.h>

#include "traces/readers/intern.h"

struct building {
  struct kc_contents *out;
  struct kc_diag *diag;
  uint64_t capacity;       /* of out->run */
  uint64_t *begin;         /* [count + 1] first run of each row */
  uint32_t page_size;
  struct kc_intern pairs;  /* (salt, block) -> dense number; not used with one salt */
  uint32_t *first_key;     /* [numbers] */
  uint64_t first_capacity;
};

const char *kc_content_source_name(enum kc_content_source source)
{
  static const char *const names[] = {"unknown", "prefix_ids", "sessions", "shared_prefix"};
  KC_ASSERT((unsigned)source < sizeof names / sizeof names[0]);
  KC_ASSERT(names[source] != NULL);
  return names[source];
}

enum kc_content_source kc_contents_of_trace(const struct kc_trace *trace)
{
  KC_ASSERT(trace->count > 0);
  KC_ASSERT(!trace->prefix_ids || trace->column.block_first != NULL);
  if (trace->prefix_ids) return KC_CONTENT_IDS;
  return trace->column.session != NULL ? KC_CONTENT_SESSIONS : KC_CONTENT_UNKNOWN;
}

void kc_contents_free(struct kc_contents *contents)
{
  free(contents->row);
  free(contents->run);
  *contents = (struct kc_contents){0};
}

static enum kc_err no_memory(struct building *b)
{
  return kc_fail(b->diag, KC_ERR_MEMORY, "no memory for the page keys of the prompts");
}

/* ---- runs ---- */

/* Appends keys to the row under construction, which began at run `from`. */
static enum kc_err append(struct building *b, uint64_t from, uint32_t first, uint32_t count)
{
  struct kc_contents *out = b->out;
  KC_ASSERT(count > 0);
  KC_ASSERT(from <= out->run_count);
  if (out->run_count > from) {
    struct kc_key_run *last = &out->run[out->run_count - 1];
    if (last->first + last->count == first) {
      last->count += count;
      return KC_OK;
    }
  }
  if (out->run_count == b->capacity) {
    const uint64_t capacity = b->capacity == 0 ? 1024 : b->capacity * 2;
    struct kc_key_run *grown = realloc(out->run, capacity * sizeof *grown);
    if (grown == NULL) return no_memory(b);
    out->run = grown;
    b->capacity = capacity;
  }
  out->run[out->run_count++] = (struct kc_key_run){.first = first, .count = count};
  return KC_OK;
}

/* Takes `count` keys that nobody has. */
static enum kc_err new_keys(struct building *b, uint64_t count, uint32_t *first)
{
  KC_ASSERT(first != NULL);
  KC_ASSERT(b->out->key_count <= KC_KEYS_MAX);
  if (count > KC_KEYS_MAX - b->out->key_count) {
    return kc_fail(b->diag, KC_ERR_LIMIT,
                   "the prompts and outputs have more than %u different pages of %u tokens; raise "
                   "kv.page_size or take fewer rows (workload.limit)",
                   (unsigned)KC_KEYS_MAX, b->page_size);
  }
  *first = b->out->key_count;
  b->out->key_count += (uint32_t)count;
  return KC_OK;
}

static enum kc_err append_new(struct building *b, uint64_t from, uint64_t count)
{
  uint32_t first = 0;
  if (count == 0) return KC_OK;
  KC_TRY(new_keys(b, count, &first));
  return append(b, from, first, (uint32_t)count);
}

static uint64_t pages_of_row(const struct building *b, const struct kc_trace_row *row)
{
  KC_ASSERT(b->page_size > 0);
  return ((uint64_t)row->input_tokens + row->output_tokens) / b->page_size;
}

/* ---- prefix ids ---- */

/* The dense number of (salt, block), with room in first_key for it. */
static enum kc_err number_of(struct building *b, uint32_t salt, uint32_t block, bool salted,
                             uint32_t *number)
{
  *number = block;
  if (salted) {
    *number = kc_intern_put(&b->pairs, (uint64_t)salt << 32 | block);
    if (*number == KC_INTERN_FULL) return no_memory(b);
  }
  if (*number >= b->first_capacity) {
    uint64_t capacity = b->first_capacity == 0 ? 4096 : b->first_capacity * 2;
    while (capacity <= *number) capacity *= 2;
    uint32_t *grown = realloc(b->first_key, capacity * sizeof *grown);
    if (grown == NULL) return no_memory(b);
    memset(grown + b->first_capacity, 0xff, (capacity - b->first_capacity) * sizeof *grown);
    b->first_key = grown;
    b->first_capacity = capacity;
  }
  KC_ASSERT(*number < b->first_capacity);
  return KC_OK;
}

/* Block j of a row holds tokens [j * T, (j + 1) * T): pages that end there, up to `limit`. */
static enum kc_err append_block(struct building *b, uint64_t from, uint32_t number, uint64_t j,
                                uint32_t block_tokens, uint64_t limit)
{
  const uint64_t begin = j * block_tokens / b->page_size;
  const uint64_t end = (j + 1) * block_tokens / b->page_size;
  const uint64_t last = end < limit ? end : limit;
  KC_ASSERT(begin <= end);
  if (begin >= last) return KC_OK;
  if (b->first_key[number] == KC_KEY_NONE) KC_TRY(new_keys(b, end - begin, &b->first_key[number]));
  KC_ASSERT(b->first_key[number] < b->out->key_count);
  return append(b, from, b->first_key[number], (uint32_t)(last - begin));
}

static enum kc_err row_from_ids(struct building *b, const struct kc_trace *trace, uint64_t i,
                                const uint32_t *salt)
{
  const struct kc_trace_row *row = &trace->row[i];
  const uint64_t from = b->out->run_count;
  const uint32_t *block = trace->block + trace->column.block_first[i];
  const uint64_t prompt = row->input_tokens / b->page_size;
  const uint64_t known = (uint64_t)trace->column.block_count[i] * trace->block_tokens /
                         b->page_size; /* pages that end in a block with an id */
  const uint64_t limit = known < prompt ? known : prompt;
  KC_ASSERT(trace->block_tokens > 0);
  for (uint32_t j = 0; j < trace->column.block_count[i]; j++) {
    uint32_t number;
    KC_TRY(number_of(b, salt == NULL ? 0 : salt[i], block[j], salt != NULL, &number));
    KC_TRY(append_block(b, from, number, j, trace->block_tokens, limit));
  }
  return append_new(b, from, pages_of_row(b, row) - limit);
}

/* ---- sessions ---- */

/* Tokens with which row i begins that are those of row `before`, the turn before it: all of it when
 * the prompt is long enough, its prompt when the output was left out, nothing after a compaction.
 */
static uint64_t shared_tokens(const struct kc_trace *trace, uint64_t before, uint64_t i)
{
  const struct kc_trace_row *p = &trace->row[before];
  const uint64_t input = trace->row[i].input_tokens;
  const uint8_t *flags = trace->column.flags;
  KC_ASSERT(before < i);
  if (flags != NULL && (flags[i] & KC_ROW_COMPACTED) != 0) return 0;
  if (flags != NULL && ((flags[i] ^ flags[before]) & KC_ROW_SUBAGENT) != 0) return 0;
  if (input >= (uint64_t)p->input_tokens + p->output_tokens) {
    return (uint64_t)p->input_tokens + p->output_tokens;
  }
  return input >= p->input_tokens ? p->input_tokens : 0;
}

static enum kc_err append_from_row(struct building *b, uint64_t from, uint64_t row, uint64_t pages)
{
  KC_ASSERT(row < b->out->count);
  KC_ASSERT(b->begin[row + 1] <= from);
  for (uint64_t r = b->begin[row]; r < b->begin[row + 1] && pages > 0; r++) {
    const struct kc_key_run run = b->out->run[r]; /* a copy: appending may move the array */
    const uint32_t count = run.count < pages ? run.count : (uint32_t)pages;
    KC_TRY(append(b, from, run.first, count));
    pages -= count;
  }
  KC_ASSERT(pages == 0);
  return KC_OK;
}

static enum kc_err row_from_session(struct building *b, const struct kc_trace *trace, uint64_t i,
                                    const uint32_t *salt, uint32_t *last)
{
  const uint64_t from = b->out->run_count;
  const uint32_t session = trace->column.session[i];
  uint64_t shared = 0;
  if (session != KC_TRACE_NONE) {
    const uint32_t before = last[session];
    KC_ASSERT(session < trace->session_count);
    if (before != KC_TRACE_NONE && (salt == NULL || salt[before] == salt[i])) {
      shared = shared_tokens(trace, before, i) / b->page_size;
      KC_TRY(append_from_row(b, from, before, shared));
    }
    last[session] = (uint32_t)i;
  }
  KC_ASSERT(shared <= pages_of_row(b, &trace->row[i]));
  return append_new(b, from, pages_of_row(b, &trace->row[i]) - shared);
}

/* ---- all rows ---- */

static enum kc_err begin(struct building *b, uint64_t count)
{
  KC_ASSERT(count > 0);
  KC_ASSERT(b->page_size > 0);
  *b->out = (struct kc_contents){.count = count};
  b->out->row = calloc(count, sizeof *b->out->row);
  b->begin = calloc(count + 1, sizeof *b->begin);
  return b->out->row == NULL || b->begin == NULL ? no_memory(b) : KC_OK;
}

/* Rows point into `run` only now that it does not move any more. */
static enum kc_err end(struct building *b, enum kc_err err)
{
  struct kc_contents *out = b->out;
  for (uint64_t i = 0; err == KC_OK && i < out->count; i++) {
    KC_ASSERT(b->begin[i] <= b->begin[i + 1]);
    out->row[i] = (struct kc_content){.run = out->run == NULL ? NULL : out->run + b->begin[i],
                                      .run_count = (uint32_t)(b->begin[i + 1] - b->begin[i])};
  }
  free(b->begin);
  free(b->first_key);
  kc_intern_deinit(&b->pairs);
  if (err != KC_OK) kc_contents_free(out);
  return err;
}

static enum kc_err all_rows(struct building *b, const struct kc_trace *trace, const uint32_t *salt)
{
  const bool sessions = b->out->source == KC_CONTENT_SESSIONS;
  uint32_t *last = NULL;
  enum kc_err err = KC_OK;
  if (sessions) {
    last = malloc(((size_t)trace->session_count + 1) * sizeof *last);
    if (last == NULL) return no_memory(b);
    memset(last, 0xff, ((size_t)trace->session_count + 1) * sizeof *last);
  }
  for (uint64_t i = 0; err == KC_OK && i < trace->count; i++) {
    b->begin[i] = b->out->run_count;
    err = sessions ? row_from_session(b, trace, i, salt, last)
          : b->out->source == KC_CONTENT_IDS
              ? row_from_ids(b, trace, i, salt)
              : append_new(b, b->out->run_count, pages_of_row(b, &trace->row[i]));
    b->begin[i + 1] = b->out->run_count;
  }
  free(last);
  return err;
}

enum kc_err kc_contents_from_trace(struct kc_contents *contents, const struct kc_trace *trace,
                                   uint32_t page_size, const uint32_t *salt, struct kc_diag *diag)
{
  struct building b = {.out = contents, .diag = diag, .page_size = page_size};
  KC_ASSERT(trace->count > 0);
  KC_ASSERT(page_size > 0);
  enum kc_err err = begin(&b, trace->count);
  contents->source = kc_contents_of_trace(trace);
  if (err == KC_OK) err = all_rows(&b, trace, salt);
  return end(&b, err);
}

/* ---- closed workloads ---- */

enum kc_err kc_contents_closed(struct kc_contents *contents, uint32_t count, uint32_t tokens,
                               uint32_t shared_tokens_count, uint32_t page_size,
                               const uint32_t *salt, struct kc_diag *diag)
{
  struct building b = {.out = contents, .diag = diag, .page_size = page_size};
  KC_ASSERT(shared_tokens_count <= tokens);
  enum kc_err err = begin(&b, count);
  contents->source = shared_tokens_count > 0 ? KC_CONTENT_PREFIX : KC_CONTENT_UNKNOWN;
  const uint32_t shared = shared_tokens_count / page_size;
  for (uint32_t i = 0; err == KC_OK && i < count; i++) {
    uint32_t number;
    b.begin[i] = contents->run_count;
    err = number_of(&b, 0, salt == NULL ? 0 : salt[i], true, &number);
    if (err == KC_OK && shared > 0 && b.first_key[number] == KC_KEY_NONE) {
      err = new_keys(&b, shared, &b.first_key[number]);
    }
    if (err == KC_OK && shared > 0) err = append(&b, b.begin[i], b.first_key[number], shared);
    if (err == KC_OK) err = append_new(&b, b.begin[i], tokens / page_size - shared);
    b.begin[i + 1] = contents->run_count;
  }
  return end(&b, err);
}
