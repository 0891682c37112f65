/* Where a request's input and output lengths come from: two marginals and how strongly they go
 * together, or a weighted list of pairs. */
#ifndef KC_TRACES_SYNTH_LENGTHS_H
#define KC_TRACES_SYNTH_LENGTHS_H

#include "engine/base/random.h"
#include "traces/synth/fixed_math.h"

enum { KC_LENGTH_POINTS_MAX = 4 << 20 }; /* lines of a histogram */

/* A point of a distribution function. `rank` is a probability in units of 2^-64. */
struct kc_length_point {
  uint64_t rank;   /* chance of a length at most `tokens` (at the point's pair, in a list) */
  uint32_t tokens;
  uint32_t output; /* pairs only */
};

/* Quantiles are joined by straight lines, from rank 0 to UINT64_MAX; steps are not. */
struct kc_marginal {
  const struct kc_length_point *point; /* ascending ranks */
  size_t count;
  bool joined;
};

/* The length at a rank. O(log n). */
uint32_t kc_marginal_at(const struct kc_marginal *marginal, uint64_t rank);

struct kc_lengths {
  struct kc_marginal input, output;
  struct kc_marginal pair;   /* count > 0: pairs, and the two above are not used */
  int64_t correlation_nano;  /* of ranks (Spearman's), -10^9 .. 10^9: with this chance the output
                                takes the rank of the input (the mirrored rank when negative) */
  struct kc_length_point *heap[2]; /* what kc_lengths_free frees */
};

/* Both lengths at least 1. */
void kc_lengths_draw(const struct kc_lengths *lengths, struct kc_random *random,
                     uint32_t *input_tokens, uint32_t *output_tokens);
void kc_lengths_free(struct kc_lengths *lengths);

/* Every request alike. */
enum kc_err kc_lengths_fixed(struct kc_lengths *lengths, uint32_t input_tokens,
                             uint32_t output_tokens, struct kc_diag *diag);

/* "conversation", "code", "reasoning", "agent" (new tokens per step). False for another name. */
bool kc_lengths_preset(struct kc_lengths *lengths, const char *name);
/* Their names, NULL beyond the last. */
const char *kc_lengths_preset_name(size_t index);

/* A histogram in CSV, by its header:
 *
 *   input_tokens,output_tokens,weight     pairs
 *   side,tokens,weight                    two marginals; side is "input" or "output"
 *
 * Weights are whole numbers. Rows in any order. Errors: KC_ERR_INPUT with line and column;
 * KC_ERR_LIMIT above KC_LENGTH_POINTS_MAX lines; KC_ERR_MEMORY. */
enum kc_err kc_lengths_parse(struct kc_lengths *lengths, const char *path, const char *data,
                             size_t bytes, struct kc_diag *diag);

/* The pairs of a trace, one per row: what it has in lengths, and nothing of its times. Errors:
 * KC_ERR_LIMIT above 2^32 - 1 rows, KC_ERR_MEMORY. O(rows log rows). */
struct kc_trace;
enum kc_err kc_lengths_of_trace(struct kc_lengths *lengths, const struct kc_trace *trace,
                                struct kc_diag *diag);

/* Turns weights (in `rank`) into ranks: cumulative shares in 2^-64, the last one UINT64_MAX. Points
 * without weight keep their predecessor's rank and are never drawn. The sum of weights must be > 0
 * and below 2^64. */
void kc_ranks_of_weights(struct kc_length_point *point, size_t count);

#endif
