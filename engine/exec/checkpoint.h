/* A checkpoint: a folder with config.json and safetensors, as Hugging Face lays it out.
 *
 *   FOLDER/config.json                     -> shapes, recipe
 *   FOLDER/model.safetensors, or an index  -> mapped; weights are built from it in any precision
 */
#ifndef KC_ENGINE_EXEC_CHECKPOINT_H
#define KC_ENGINE_EXEC_CHECKPOINT_H

#include "engine/exec/safetensors.h"
#include "engine/exec/weights.h"

struct kc_checkpoint {
  struct kc_model shapes;
  struct kc_recipe recipe;
  struct kc_safetensors *files; /* mapped until the end */
  uint64_t parameters;          /* elements of all tensors that weights are read from */
  unsigned char *used;          /* [tensors of files]: 1 where a build has looked at it */
};

/* KC_ERR_FILE, KC_ERR_INPUT with the file and what is wrong there. Nothing is left open then. */
enum kc_err kc_checkpoint_open(struct kc_checkpoint *checkpoint, const char *folder,
                               struct kc_diag *diag);
void kc_checkpoint_close(struct kc_checkpoint *checkpoint);

/* Weights in a precision; quantised here where the files are not. `site` and errors as for
 * kc_weights_build. The checkpoint may be closed afterwards. */
enum kc_err kc_checkpoint_build(const struct kc_checkpoint *checkpoint, const struct kc_site *site,
                                const struct kc_precision *precision, uint32_t positions,
                                struct kc_weights *weights, struct kc_diag *diag);

/* Tensors that no build has looked at: of layers that the engine does not run, or of none. *first
 * (may be NULL) is the first by name. Stored rotary frequencies, which everybody computes, are not
 * counted. */
size_t kc_checkpoint_unused(const struct kc_checkpoint *checkpoint, const char **first);

#endif
