/* How well a model predicts a text, computed as the engine serves: prompts in chunks, then tokens
 * one by one in a batch, over paged KV whose tags are checked.
 *
 *   text    [ window 0 | window 1 | ... | the rest ]     each is a sequence of its own
 *   window  first half: chunks of a prompt; second half: decodes, a row of a batch of windows
 *
 * Teacher forced: what comes next is the text, whatever the model would have said. The first byte
 * of a window is given; each of the others is a prediction. Figures are natural logarithms, means
 * over all predictions.
 *
 *   nll   -log q(next)                       perplexity = exp(nll)
 *   kl    sum over tokens of p log(p / q)    p: the model at full precision, where it is given
 *
 * A window's figures depend on it alone and are added up in the order of the text: results are the
 * same for any number of threads. exp and log are the library's own.
 */
#ifndef KC_ENGINE_EXEC_EVALUATE_H
#define KC_ENGINE_EXEC_EVALUATE_H

#include "engine/exec/forward.h"
#include "engine/exec/team.h"

struct kc_evaluate_config {
  const struct kc_weights *weights; /* of at least `window` positions, and a token for every byte */
  enum kc_kv_format kv_format;      /* BF16 or FP8_E4M3, for K and V */
  const unsigned char *text;
  uint64_t bytes;                   /* >= 2 */
  uint32_t window;                  /* tokens, >= 2 */
  struct kc_team *team;
  uint32_t threads;                 /* of the team */
  /* [kc_evaluate_predictions][vocabulary]; NULL: not wanted, not there. `keep` receives the logits,
   * `against` holds those of the model to compare with; both may be the same memory. */
  float *keep;
  const float *against;
};

struct kc_evaluation {
  uint64_t predictions;
  double nll;          /* nats a token */
  double perplexity;
  double kl;           /* nats a token; 0 without `against` */
  double same;         /* share of predictions whose likeliest token is the same; 1 without */
  uint64_t chunk_rows, decode_rows; /* passed through the model either way */
  uint64_t checks, entries;         /* tag checks that ran, entries they compared */
  uint64_t violations;              /* 0, or the figures are worth nothing */
};

/* Predictions in `bytes` of text: a byte each but for the first of every window. */
uint64_t kc_evaluate_predictions(uint64_t bytes, uint32_t window);

/* KC_ERR_MEMORY; KC_ERR_INPUT for a KV format that the model cannot keep, or logits that are no
 * numbers; KC_ERR_DEVICE when an operation refuses. */
enum kc_err kc_evaluate(const struct kc_evaluate_config *config, struct kc_evaluation *out,
                        struct kc_diag *diag);

#endif
