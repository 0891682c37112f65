/* Reading the quality files (see quality.h). No run. */
#include "sim/plan/quality.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/option.h"
#include "sim/scenario/scenario.h"

#define TEXT(field) .type = KC_OPTION_TEXT, .offset = offsetof(struct kc_quality, field), \
                    .size = sizeof(((struct kc_quality *)0)->field)
#define NUMBER(field) .type = KC_OPTION_DOUBLE, .offset = offsetof(struct kc_quality, field), \
                      .min = -1e12, .max = 1e12

static const struct kc_option entry_options[] = {
    {.key = "model", TEXT(model), .required = true,
     .help = "name of the model's config; any: of a small model that stands in"},
    {.key = "weights", TEXT(weights), .fallback = "checkpoint",
     .help = "format of the weights, as `kvcap precision --weights` takes it; checkpoint: as "
             "shipped; any: whatever it is"},
    {.key = "kv", TEXT(kv), .fallback = "any",
     .help = "format of keys and values, as `kvcap precision --kv` takes it"},
    {.key = "metric", TEXT(metric), .required = true, .help = "what was measured"},
    {.key = "unit", TEXT(unit), .fallback = "%", .help = "its unit"},
    {.key = "better", TEXT(better), .fallback = "higher", .help = "higher or lower"},
    {.key = "value", NUMBER(value), .required = true, .help = "in this precision"},
    {.key = "base", NUMBER(base), .required = true, .help = "in the one it is compared with"},
    {.key = "against", TEXT(against), .required = true, .help = "which one that is"},
    {.key = "source", TEXT(source), .required = true, .help = "who measured it, where and how"},
};

static enum kc_err read_list(struct kc_quality_list *list, const char *model,
                             const struct kc_document *document, struct kc_diag_list *problems)
{
  const struct kc_node *entries = kc_node_get(document->root, "quality");
  KC_ASSERT(model != NULL);
  if (entries == NULL || entries->kind != KC_NODE_LIST) {
    return kc_diag_list_add(problems, KC_ERR_INPUT, document->path, 1, 1,
                            "expected a list `quality:` of measured figures");
  }
  for (const struct kc_node *item = entries->child; item != NULL; item = item->next) {
    struct kc_quality entry;
    memset(&entry, 0, sizeof entry);
    kc_options_default(entry_options, sizeof entry_options / sizeof entry_options[0], &entry);
    if (item->kind != KC_NODE_MAP) {
      return kc_diag_list_add(problems, KC_ERR_INPUT, document->path, item->line, item->column,
                              "quality: expected a map with model, metric, value, base, source");
    }
    kc_options_read_map(entry_options, sizeof entry_options / sizeof entry_options[0], &entry,
                        item, document->path, "quality.", problems);
    const bool any = strcmp(entry.model, "any") == 0;
    if (!any && strcmp(entry.model, model) != 0) continue;
    if (list->count == KC_QUALITY_MAX || list->stand_ins == KC_STAND_INS_MAX) {
      return kc_diag_list_add(problems, KC_ERR_LIMIT, document->path, item->line, 0,
                              "more than %d quality figures of %s, or %d of any model",
                              (int)KC_QUALITY_MAX, model, (int)KC_STAND_INS_MAX);
    }
    if (any) list->stand_in[list->stand_ins++] = entry;
    else list->entry[list->count++] = entry;
  }
  return kc_diag_list_result(problems);
}

static enum kc_err read_file(struct kc_quality_list *list, const char *model, const char *path,
                             struct kc_diag *diag)
{
  struct kc_document document;
  KC_ASSERT(path != NULL);
  KC_TRY(kc_document_load(&document, path, diag));
  struct kc_diag_list *problems = malloc(sizeof *problems);
  enum kc_err err = KC_OK;
  if (problems == NULL) {
    err = kc_fail(diag, KC_ERR_MEMORY, "no memory to read %s", path);
  } else {
    kc_diag_list_init(problems);
    err = read_list(list, model, &document, problems);
    if (err != KC_OK && diag != NULL) *diag = problems->items[0];
  }
  free(problems);
  kc_document_free(&document);
  return err;
}

static int is_yaml(const struct dirent *entry)
{
  const size_t length = strlen(entry->d_name);
  return length > 5 && strcmp(entry->d_name + length - 5, ".yaml") == 0;
}

enum kc_err kc_quality_load(struct kc_quality_list *list, const char *model,
                            struct kc_diag *diag)
{
  char folder[KC_DIAG_PATH_BYTES];
  struct dirent **name = NULL;
  struct kc_diag ignored;
  enum kc_err err = KC_OK;
  KC_ASSERT(list != NULL && model != NULL);
  list->count = list->stand_ins = 0;
  if (kc_data_folder("quality", folder, &ignored) != KC_OK) return KC_OK;
  const int count = scandir(folder, &name, is_yaml, alphasort);
  for (int i = 0; i < count; i++) {
    char path[KC_DIAG_PATH_BYTES + 300];
    snprintf(path, sizeof path, "%s/%s", folder, name[i]->d_name);
    if (err == KC_OK) err = read_file(list, model, path, diag);
    free(name[i]);
  }
  free(name);
  return err;
}

bool kc_quality_is_of(const struct kc_quality *entry, const char *weights, bool as_shipped,
                      const char *kv)
{
  KC_ASSERT(weights != NULL && kv != NULL);
  const bool shipped = as_shipped && strcmp(entry->weights, "checkpoint") == 0;
  return (shipped || strcmp(entry->weights, "any") == 0 || strcmp(entry->weights, weights) == 0) &&
         (strcmp(entry->kv, "any") == 0 || strcmp(entry->kv, kv) == 0);
}
