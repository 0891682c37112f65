/* Finding checkpoints (see engine_model.h). */
#include "sim/cli/engine_model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/exec/team.h"
#include "sim/scenario/scenario.h"

/* Cuts the last part off; what is left is the folder, "." when there is none. */
static void cut_name(char *path)
{
  char *slash = strrchr(path, '/');
  KC_ASSERT(path[0] != '\0');
  if (slash == NULL) {
    memcpy(path, ".", 2);
  } else {
    slash[slash == path] = '\0';
  }
}

enum kc_err kc_engine_checkpoint_open(struct kc_checkpoint *checkpoint, const char *name,
                                      char title[KC_DIAG_PATH_BYTES], struct kc_diag *diag)
{
  char path[KC_DIAG_PATH_BYTES];
  size_t length = strlen(name);
  *checkpoint = (struct kc_checkpoint){0};
  while (length > 1 && name[length - 1] == '/') length--;
  const int written = snprintf(path, sizeof path, "%.*s/config.json", (int)length, name);
  const bool here = (size_t)written < sizeof path && kc_file_exists(path);
  if (!here) KC_TRY(kc_data_find("models", name, "/config.json", NULL, path, diag));
  cut_name(path);
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

uint32_t kc_engine_threads(uint32_t asked)
{
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  KC_ASSERT(asked <= KC_TEAM_MAX);
  if (asked > 0) return asked;
  return processors > KC_TEAM_MAX ? KC_TEAM_MAX : processors > 0 ? (uint32_t)processors : 1;
}
