/* Models for the engine by name or folder, and bytes as their text. */
#ifndef KC_SIM_CLI_ENGINE_MODEL_H
#define KC_SIM_CLI_ENGINE_MODEL_H

#include "engine/exec/checkpoint.h"

/* Opens the checkpoint `name`: a folder, or the name of one in models/ of the data folders. *title
 * is its last part. KC_ERR_INPUT, KC_ERR_FILE. */
enum kc_err kc_engine_checkpoint_open(struct kc_checkpoint *checkpoint, const char *name,
                                      char title[KC_DIAG_PATH_BYTES], struct kc_diag *diag);

/* KC_ERR_INPUT when tokens of the model are not bytes. */
enum kc_err kc_engine_check_bytes(const struct kc_checkpoint *checkpoint, struct kc_diag *diag);

/* A note, one for all, about tensors that the weights built so far were not read from. */
void kc_engine_note_unused(const struct kc_checkpoint *checkpoint, const char *title);

/* Threads to compute with: as asked, or one for each processor when that is 0. */
uint32_t kc_engine_threads(uint32_t asked);

#endif
