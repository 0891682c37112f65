/* Finding checkpoints (see engine_model.h). */
#include "sim/cli/engine_model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/exec/team.h"
#include "sim/cli/cli.h"
#include "sim/scenario/scenario.h"

/* The folder of checkpoint `name`. False when there is none. */
static bool find_folder(const char *name, char out[KC_DIAG_PATH_BYTES])
{
  char models[KC_DIAG_PATH_BYTES], config[KC_DIAG_PATH_BYTES + 16];
  size_t length = strlen(name);
  KC_ASSERT(length < KC_DIAG_PATH_BYTES);
  while (length > 1 && name[length - 1] == '/') length--;
  snprintf(out, KC_DIAG_PATH_BYTES, "%.*s", (int)length, name);
  snprintf(config, sizeof config, "%s/config.json", out);
  if (kc_file_exists(config)) return true;
  if (memchr(name, '/', length) != NULL) return false;
  if (kc_data_folder("models", models, NULL) != KC_OK) return false;
  const int written =
      snprintf(out, KC_DIAG_PATH_BYTES, "%s/%.*s", models, (int)length, name);
  snprintf(config, sizeof config, "%s/config.json", out);
  return written > 0 && written < KC_DIAG_PATH_BYTES && kc_file_exists(config);
}

enum kc_err kc_engine_checkpoint_open(struct kc_checkpoint *checkpoint, const char *name,
                                      char title[KC_DIAG_PATH_BYTES], struct kc_diag *diag)
{
  char path[KC_DIAG_PATH_BYTES];
  *checkpoint = (struct kc_checkpoint){0};
  if (!find_folder(name, path)) {
    return kc_fail(diag, KC_ERR_INPUT, "there is no checkpoint \"%.200s\": expected a folder with "
                   "config.json and safetensors, or one in scenarios/models, such as tiny-gqa",
                   name);
  }
  const char *slash = strrchr(path, '/');
  snprintf(title, KC_DIAG_PATH_BYTES, "%s", slash == NULL || slash[1] == '\0' ? path : slash + 1);
  return kc_checkpoint_open(checkpoint, path, diag);
}

enum kc_err kc_engine_check_bytes(const struct kc_checkpoint *checkpoint, struct kc_diag *diag)
{
  KC_ASSERT(checkpoint->recipe.layers > 0);
  if (checkpoint->recipe.vocabulary == 256) return KC_OK;
  return kc_fail_at(diag, KC_ERR_INPUT, checkpoint->shapes.path, 0, 0,
                    "the vocabulary has %u tokens; text is read and written for models whose 256 "
                    "tokens are bytes", checkpoint->recipe.vocabulary);
}

void kc_engine_note_unused(const struct kc_checkpoint *checkpoint, const char *title)
{
  const char *first = "";
  size_t count;
  const size_t unused = kc_checkpoint_unused(checkpoint, &first);
  (void)kc_safetensors_list(checkpoint->files, &count);
  KC_ASSERT(unused <= count);
  if (unused == 0) return;
  kc_cli_note("%zu of the %zu tensors of %.100s belong to no layer that the engine runs, and were "
              "not read; the first is \"%.120s\"", unused, count, title, first);
}

uint32_t kc_engine_threads(uint32_t asked)
{
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  KC_ASSERT(asked <= KC_TEAM_MAX);
  if (asked > 0) return asked;
  return processors > KC_TEAM_MAX ? KC_TEAM_MAX : processors > 0 ? (uint32_t)processors : 1;
}
