/* Opening a checkpoint: see the header. */
#include "engine/exec/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/file.h"

/* Elements of tensors in plain formats, so that scales and packed codes are not counted. */
static uint64_t count_parameters(const struct kc_safetensors *files)
{
  size_t count;
  uint64_t sum = 0;
  const struct kc_st_tensor *list = kc_safetensors_list(files, &count);
  KC_ASSERT(list != NULL);
  for (size_t i = 0; i < count; i++) {
    if (list[i].type <= KC_ST_F8_E4M3) sum += list[i].elements;
  }
  return sum;
}

enum kc_err kc_checkpoint_open(struct kc_checkpoint *checkpoint, const char *folder,
                               struct kc_diag *diag)
{
  char config[KC_DIAG_PATH_BYTES];
  *checkpoint = (struct kc_checkpoint){0};
  const int length = snprintf(config, sizeof config, "%s/config.json", folder);
  KC_ASSERT(length > 0);
  if ((size_t)length >= sizeof config || !kc_file_exists(config)) {
    return kc_fail(diag, KC_ERR_FILE, "%.200s is no checkpoint: it holds no config.json", folder);
  }
  KC_TRY(kc_model_load(&checkpoint->shapes, config, diag));
  KC_TRY(kc_recipe_load(&checkpoint->recipe, &checkpoint->shapes, diag));
  KC_TRY(kc_safetensors_open(&checkpoint->files, folder, diag));
  size_t count;
  (void)kc_safetensors_list(checkpoint->files, &count);
  checkpoint->used = calloc(count, 1);
  if (checkpoint->used == NULL) {
    kc_checkpoint_close(checkpoint);
    return kc_fail(diag, KC_ERR_MEMORY, "no memory for a checkpoint");
  }
  checkpoint->parameters = count_parameters(checkpoint->files);
  return KC_OK;
}

void kc_checkpoint_close(struct kc_checkpoint *checkpoint)
{
  KC_ASSERT(checkpoint != NULL);
  if (checkpoint->files != NULL) kc_safetensors_close(checkpoint->files);
  free(checkpoint->used);
  *checkpoint = (struct kc_checkpoint){0};
}

enum kc_err kc_checkpoint_build(const struct kc_checkpoint *checkpoint, const struct kc_site *site,
                                const struct kc_precision *precision, uint32_t positions,
                                struct kc_weights *weights, struct kc_diag *diag)
{
  struct kc_file_source files = {.files = checkpoint->files, .used = checkpoint->used};
  const struct kc_weight_source source = kc_safetensors_source(&files);
  KC_ASSERT(checkpoint->files != NULL);
  return kc_weights_build(weights, site, &checkpoint->recipe, precision, positions, &source, diag);
}

size_t kc_checkpoint_unused(const struct kc_checkpoint *checkpoint, const char **first)
{
  static const char frequencies[] = ".rotary_emb.inv_freq";
  size_t count, unused = 0;
  const struct kc_st_tensor *list = kc_safetensors_list(checkpoint->files, &count);
  KC_ASSERT(checkpoint->used != NULL);
  for (size_t i = 0; i < count; i++) {
    const size_t length = strlen(list[i].name), tail = strlen(frequencies);
    if (checkpoint->used[i] != 0) continue;
    if (length > tail && strcmp(list[i].name + length - tail, frequencies) == 0) continue;
    if (unused == 0 && first != NULL) *first = list[i].name;
    unused++;
  }
  return unused;
}
