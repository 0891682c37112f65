/* What the requests of a computed run say: tokens by request and position. */
#ifndef KC_ENGINE_EXEC_PROMPTS_H
#define KC_ENGINE_EXEC_PROMPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/sched/step.h"

/* The text: token `position` of `request`, in [0, vocabulary). Called from any thread. */
struct kc_prompts {
  void *context;
  int32_t (*token)(void *context, uint32_t request, uint32_t position);
  bool whole; /* it goes on after the prompt: what the model says is kept, but not what it reads
                 next. Else positions are those of the prompt */
};

/* Prompts that no text stands behind: drawn by counter from *seed, which outlives them. */
struct kc_synthetic_prompts {
  uint64_t seed;
  uint32_t vocabulary;
};
struct kc_prompts kc_prompts_synthetic(struct kc_synthetic_prompts *prompts);

/* Texts behind page keys: equal keys give equal tokens, whoever has them, so that a page found in
 * the prefix cache holds what its finder would have computed. Keys of traces cover outputs as well
 * (the next turn of a conversation repeats them), hence whole texts. Tokens after the last full
 * page are the request's own. Everything outlives the prompts. */
struct kc_content_prompts {
  uint64_t seed;
  uint32_t vocabulary, page_tokens;
  const struct kc_request *requests;
};
struct kc_prompts kc_prompts_of_contents(struct kc_content_prompts *prompts);

#endif
