/* Bytes in, bytes out: prompts through the engine with a checkpoint's model. */
#ifndef KC_SIM_CLI_ENGINE_PROMPT_H
#define KC_SIM_CLI_ENGINE_PROMPT_H

#include "engine/base/option.h"

enum kc_engine_weights { KC_ENGINE_BF16, KC_ENGINE_FP8, KC_ENGINE_INT4_G32, KC_ENGINE_INT4_G128 };

struct kc_engine_prompts {
  const char *model;
  struct kc_option_list prompt;  /* a request each */
  const char *file;              /* one more; "-": standard input; NULL: none */
  uint32_t tokens;               /* that each produces, > 0 */
  double temperature;            /* 0: the likeliest byte */
  uint64_t seed;
  int weights, kv;               /* enum kc_engine_weights; 0: BF16, 1: FP8 */
  uint32_t threads;
  int device;                    /* enum kc_engine_device */
  bool json;
};

/* Runs them in one batch and prints what comes of it. Returns the exit status. */
int kc_engine_run_prompts(const struct kc_engine_prompts *prompts);

#endif
