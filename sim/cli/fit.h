/* Parts of `kvcap fit` (private to sim/cli): the question, and its two forms of answer. */
#ifndef KC_SIM_CLI_FIT_H
#define KC_SIM_CLI_FIT_H

#include <jansson.h>

#include "engine/memory/budget.h"

/* Everything a bill is computed from. Large (a model and a GPU): lives on the heap. */
struct fit_question {
  struct kc_model model;
  struct kc_gpu gpu;
  struct kc_precision precision;
  struct kc_memory_config config;
  uint32_t replicas;                 /* equal instances, >= 1; `config` is of one: its share of
                                        the concurrency asked for */
  char scenario[KC_DIAG_PATH_BYTES]; /* "" when asked by options */
  char pool[48];                     /* of the scenario */
};

/* The change as the user would type it: options as the engine spells them, or for a scenario
 * "--set pools.NAME.key=value" as often as needed. "" when a scenario has no key for it. */
void kc_fit_change_text(const struct fit_question *question, const struct kc_change *change,
                        char *out, size_t size);

/* The bill on stdout, for people. */
void kc_fit_print(const struct fit_question *question, const struct kc_fit *fit);

/* The bill as a JSON object (a new reference), NULL when memory ran out. */
json_t *kc_fit_json(const struct fit_question *question, const struct kc_fit *fit);

/* Caveats on stderr: unconfirmed figures, a context past the model's, a pool past the board. */
void kc_fit_notes(const struct fit_question *question, const struct kc_fit *fit);

#endif
