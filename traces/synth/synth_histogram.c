/* A length histogram in CSV: two headers, whole numbers, no quotes.
 *
 *   input_tokens,output_tokens,weight        side,tokens,weight
 *   512,128,40                               input,512,40
 *   2048,16,3                                output,128,17
 *
 * Parsed into one array of points, weights in `rank`; then sorted, so that the order of the lines
 * does not matter, and turned into ranks. The two marginals share the array's layout but not the
 * memory. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "traces/synth/synth_lengths.h"
#include "traces/trace.h"

enum { CELLS = 3 };

struct histogram {
  const char *path;
  struct kc_diag *diag;
  const char *at, *end; /* unread bytes */
  uint64_t line;
  bool pairs;
  const char *cell[CELLS];
  size_t bytes[CELLS];
  struct kc_length_point *point[2]; /* [0] pairs or inputs, [1] outputs */
  size_t count[2], capacity[2];
  uint64_t total[2];
};

static enum kc_err fail(struct histogram *h, unsigned cell, const char *sentence)
{
  const char *start = h->cell[0];
  const uint32_t column = cell < CELLS ? (uint32_t)(h->cell[cell] - start) + 1 : 0;
  return kc_fail_at(h->diag, KC_ERR_INPUT, h->path, h->line, column, "%s", sentence);
}

/* The next line that is not blank, cut into exactly three cells. False at the end. */
static bool next_line(struct histogram *h, bool *three)
{
  while (h->at < h->end) {
    const char *start = h->at;
    const char *stop = memchr(start, '\n', (size_t)(h->end - start));
    h->at = stop == NULL ? h->end : stop + 1;
    if (stop == NULL) stop = h->end;
    if (stop > start && stop[-1] == '\r') stop--;
    h->line++;
    if (start == stop) continue;
    unsigned cells = 0;
    h->cell[0] = start;
    for (const char *c = start;; c++) {
      if (c < stop && *c != ',') continue;
      if (cells < CELLS) h->bytes[cells] = (size_t)(c - h->cell[cells]);
      cells++;
      if (c == stop) break;
      if (cells < CELLS) h->cell[cells] = c + 1;
    }
    *three = cells == CELLS;
    return true;
  }
  return false;
}

static bool cell_is(const struct histogram *h, unsigned cell, const char *text)
{
  return h->bytes[cell] == strlen(text) && memcmp(h->cell[cell], text, h->bytes[cell]) == 0;
}

static enum kc_err read_header(struct histogram *h)
{
  const char *const sentence =
      "a length histogram starts with the line \"input_tokens,output_tokens,weight\" or "
      "\"side,tokens,weight\"";
  bool three = false;
  h->cell[0] = h->at;
  if (!next_line(h, &three)) return fail(h, CELLS, sentence);
  if (!three || !cell_is(h, 2, "weight")) return fail(h, CELLS, sentence);
  h->pairs = cell_is(h, 0, "input_tokens") && cell_is(h, 1, "output_tokens");
  if (h->pairs || (cell_is(h, 0, "side") && cell_is(h, 1, "tokens"))) return KC_OK;
  return fail(h, CELLS, sentence);
}

static enum kc_err read_number(struct histogram *h, unsigned cell, uint64_t max, uint64_t *out)
{
  if (kc_parse_u64(h->cell[cell], h->bytes[cell], out) && *out <= max) return KC_OK;
  return fail(h, cell, max == UINT32_MAX
              ? "expected a whole number of tokens from 0 to 4,294,967,295"
              : "expected a whole number as the weight, below 2^42");
}

static enum kc_err append(struct histogram *h, unsigned side, struct kc_length_point point)
{
  if (h->count[side] == KC_LENGTH_POINTS_MAX) {
    return kc_fail_at(h->diag, KC_ERR_LIMIT, h->path, h->line, 0,
                      "a histogram has at most %d lines a side", KC_LENGTH_POINTS_MAX);
  }
  if (h->count[side] == h->capacity[side]) {
    const size_t capacity = h->capacity[side] == 0 ? 256 : 2 * h->capacity[side];
    struct kc_length_point *grown = realloc(h->point[side], capacity * sizeof *grown);
    if (grown == NULL) return kc_fail(h->diag, KC_ERR_MEMORY, "the host ran out of memory");
    h->point[side] = grown;
    h->capacity[side] = capacity;
  }
  h->point[side][h->count[side]++] = point;
  h->total[side] += point.rank; /* at most 2^22 lines of below 2^42 each: no overflow */
  return KC_OK;
}

static enum kc_err read_line(struct histogram *h)
{
  uint64_t first = 0, second = 0, weight;
  unsigned side = 0;
  KC_TRY(read_number(h, 2, (UINT64_C(1) << 42) - 1, &weight));
  KC_TRY(read_number(h, 1, UINT32_MAX, &second));
  if (h->pairs) {
    KC_TRY(read_number(h, 0, UINT32_MAX, &first));
  } else {
    side = cell_is(h, 0, "output");
    if (side == 0 && !cell_is(h, 0, "input")) {
      return fail(h, 0, "the side is \"input\" or \"output\"");
    }
    first = second;
    second = 0;
  }
  return append(h, side, (struct kc_length_point){weight, (uint32_t)first, (uint32_t)second});
}

static int by_tokens(const void *a, const void *b)
{
  const struct kc_length_point *const x = a, *const y = b;
  if (x->tokens != y->tokens) return x->tokens < y->tokens ? -1 : 1;
  if (x->output != y->output) return x->output < y->output ? -1 : 1;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static enum kc_err read_all(struct histogram *h)
{
  bool three = false;
  KC_TRY(read_header(h));
  while (next_line(h, &three)) {
    if (!three) return fail(h, CELLS, "expected three cells, as in the first line");
    KC_TRY(read_line(h));
  }
  if (h->total[0] == 0 || (!h->pairs && h->total[1] == 0)) {
    h->line = 0;
    return fail(h, CELLS, h->pairs ? "no line has a weight above 0"
                                   : "each side needs a line with a weight above 0");
  }
  return KC_OK;
}

enum kc_err kc_lengths_parse(struct kc_lengths *lengths, const char *path, const char *data,
                             size_t bytes, struct kc_diag *diag)
{
  struct histogram h = {.path = path, .diag = diag, .at = data, .end = data + bytes};
  *lengths = (struct kc_lengths){0};
  const enum kc_err err = read_all(&h);
  if (err != KC_OK) {
    free(h.point[0]);
    free(h.point[1]);
    return err;
  }
  for (unsigned side = 0; side < 2; side++) {
    if (h.count[side] == 0) continue;
    qsort(h.point[side], h.count[side], sizeof *h.point[side], by_tokens);
    kc_ranks_of_weights(h.point[side], h.count[side]);
    lengths->heap[side] = h.point[side];
  }
  const struct kc_marginal first = {h.point[0], h.count[0], false};
  if (h.pairs) {
    lengths->pair = first;
  } else {
    lengths->input = first;
    lengths->output = (struct kc_marginal){h.point[1], h.count[1], false};
  }
  return KC_OK;
}

enum kc_err kc_lengths_of_trace(struct kc_lengths *lengths, const struct kc_trace *trace,
                                struct kc_diag *diag)
{
  *lengths = (struct kc_lengths){0};
  KC_ASSERT(trace->count > 0);
  if (trace->count > UINT32_MAX) {
    return kc_fail_at(diag, KC_ERR_LIMIT, trace->path, 0, 0,
                      "lengths are taken from at most 4,294,967,295 requests");
  }
  struct kc_length_point *point = malloc((size_t)trace->count * sizeof *point);
  if (point == NULL) return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
  for (uint64_t i = 0; i < trace->count; i++) {
    point[i] = (struct kc_length_point){1, trace->row[i].input_tokens,
                                        trace->row[i].output_tokens};
  }
  qsort(point, (size_t)trace->count, sizeof *point, by_tokens);
  kc_ranks_of_weights(point, (size_t)trace->count);
  lengths->heap[0] = point;
  lengths->pair = (struct kc_marginal){point, (size_t)trace->count, false};
  return KC_OK;
}
