/* Two runs of one thing in virtual time: with the predicted executor alone, and with the
 * executor that computes a small model's tokens; each with its decision log. */
#ifndef KC_TESTS_ENGINE_TWIN_H
#define KC_TESTS_ENGINE_TWIN_H

#include "engine/exec/executor.h"
#include "engine/exec/decision.h"
#include "engine/exec/tag_fault.h"
#include "engine/instance/instance.h"

enum { TWIN_THREADS = 2 };

struct twin_log {
  char *text;
  size_t bytes, capacity;
};

/* What is read: TWIN_CHOSEN, what the model says after a drawn prompt; TWIN_KEYED, the texts behind
 * the page keys; TWIN_OWN, a text of its own for each request, whatever its keys promise. */
enum twin_text { TWIN_CHOSEN = 0, TWIN_KEYED, TWIN_OWN };

/* What both runs share. */
struct twin_model {
  struct kc_site site;
  struct kc_weights weights;
  struct kc_team *team;
};

struct twin_engine {
  /* set by the caller */
  const struct twin_model *model;
  bool real;
  const struct kc_instance_config *instance;
  const struct kc_request *requests;
  uint32_t request_count;
  uint64_t output_tokens;
  enum twin_text text;
  uint32_t block_rows; /* 0: the executor's own */
  uint32_t fault_kinds, fault_every; /* every 0: no probe */
  /* the rest */
  struct kc_arena arena;
  struct kc_cache cache;
  struct kc_exec exec;
  struct kc_tag_faults faults;
  struct kc_exec_probe probe;
  struct kc_synthetic_prompts prompts;
  struct kc_content_prompts texts;
  struct kc_executor predicted;
  struct kc_decision_tap tap;
  struct twin_log log;
};

extern const char twin_config[]; /* of the model: under 10,000 parameters */

/* End the program with a message when something fails. */
void twin_model_make(struct twin_model *model, const struct kc_site *site); /* NULL: the host */
void twin_model_free(struct twin_model *model);
/* The site of `--module FILE`; NULL, and `device` as it was, without the option. */
const struct kc_site *twin_open_device(int argc, char **argv, struct kc_accelerator *device);
/* Kernels of a device take pages of 16, 32, 64 and 128 tokens. */
bool twin_has_kernels(const struct twin_model *model, uint32_t page_tokens);
struct kc_executor twin_wrap(void *engine, const struct kc_executor *predicted);
void twin_engine_free(struct twin_engine *engine);

/* True when both logs are equal; else prints the first line that differs. */
bool twin_logs_equal(struct twin_log *simulated, struct twin_log *computed);

#endif
