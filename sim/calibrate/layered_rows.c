/* Reads the files of a layered profile (see layered_fit.h).
 *
 *   file --name--> part --columns--> rows on the heap, appended
 *
 * meta.yaml holds much more than is wanted here, so its keys are looked up one by one and the rest
 * is left alone. It names the shapes of the last tensor degree that was profiled: times that degree
 * they are those of the whole model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/node.h"
#include "engine/base/number.h"
#include "sim/calibrate/layered_fit.h"

enum part { PART_DENSE, PART_SEQUENCE, PART_ATTENTION, PART_SKEW, PART_META, PARTS };

static const char *const part_names[PARTS] = {"dense", "per_sequence", "attention", "skew",
                                              "meta.yaml"};

static enum part part_of(const char *path)
{
  char stem[64];
  kc_timing_stem(path, stem, sizeof stem);
  int part = 0;
  KC_ASSERT(path != NULL);
  while (part < PARTS && strcmp(part_names[part], stem) != 0) part++;
  return (enum part)part;
}

bool kc_layered_is_part(const char *path)
{
  return part_of(path) != PARTS;
}

static enum kc_err grow(void **block, size_t count, size_t more, size_t size, struct kc_diag *diag)
{
  KC_ASSERT(more > 0 && size > 0);
  void *larger = realloc(*block, (count + more) * size);
  if (larger == NULL) return kc_fail(diag, KC_ERR_MEMORY, "out of memory: %zu rows", count + more);
  *block = larger;
  return KC_OK;
}

static enum kc_err columns(const struct kc_timing_table *table, const char *const *names,
                           size_t count, int *out, struct kc_diag *diag)
{
  KC_ASSERT(count > 0);
  for (size_t i = 0; i < count; i++) {
    out[i] = kc_timing_column(table, names[i]);
    if (out[i] >= 0) continue;
    return kc_fail_at(diag, KC_ERR_INPUT, table->path, 1, 0,
                      "no column \"%s\"; a file of this name must have it", names[i]);
  }
  return KC_OK;
}

/* Index of a layer's name, added when new. */
static enum kc_err find_layer(struct kc_layered_rows *rows, const struct kc_timing_table *table,
                              size_t row, int column, bool by_sequences, uint32_t *out,
                              struct kc_diag *diag)
{
  const struct kc_timing_cell *cell = kc_timing_cell(table, row, column);
  for (*out = 0; *out < rows->name_count; (*out)++) {
    if (!kc_timing_is(cell, rows->name[*out])) continue;
    if (rows->by_sequences[*out] == by_sequences) return KC_OK;
    return kc_fail_at(diag, KC_ERR_INPUT, table->path, kc_timing_line(row), 0,
                      "layer \"%s\" is timed by tokens and by sequences; keep one",
                      rows->name[*out]);
  }
  if (rows->name_count == KC_LAYERS_PER_PROFILE || cell->bytes == 0 ||
      cell->bytes >= sizeof rows->name[0]) {
    return kc_fail_at(diag, KC_ERR_INPUT, table->path, kc_timing_line(row), (uint32_t)column + 1,
                      "a layer without a name, with one beyond 31 characters, or a 25th layer");
  }
  memcpy(rows->name[*out], cell->text, cell->bytes);
  kc_text_clean(rows->name[*out]);
  rows->by_sequences[*out] = by_sequences;
  rows->name_count++;
  return KC_OK;
}

static enum kc_err read_layers(struct kc_layered_rows *rows, const struct kc_timing_table *table,
                               bool by_sequences, struct kc_diag *diag)
{
  const char *const names[] = {"layer", by_sequences ? "sequences" : "tokens", "time_us"};
  int at[3];
  void *block = rows->layer;
  KC_ASSERT(table->rows > 0);
  KC_TRY(columns(table, names, 3, at, diag));
  KC_TRY(grow(&block, rows->layer_count, table->rows, sizeof *rows->layer, diag));
  rows->layer = block;
  for (size_t row = 0; row < table->rows; row++) {
    struct kc_layer_row out;
    KC_TRY(find_layer(rows, table, row, at[0], by_sequences, &out.layer, diag));
    KC_TRY(kc_timing_number(table, row, at[1], 1, 1e9, &out.units, diag));
    KC_TRY(kc_timing_number(table, row, at[2], 1e-3, 1e9, &out.us, diag));
    rows->layer[rows->layer_count++] = out;
  }
  return KC_OK;
}

static enum kc_err read_attention(struct kc_layered_rows *rows,
                                  const struct kc_timing_table *table, struct kc_diag *diag)
{
  static const char *const names[] = {"prefill_chunk", "kv_prefill", "n_decode", "kv_decode",
                                      "time_us"};
  int at[5];
  double figure[5];
  void *block = rows->mixed;
  KC_ASSERT(table->rows > 0);
  KC_TRY(columns(table, names, 5, at, diag));
  KC_TRY(grow(&block, rows->mixed_count, table->rows, sizeof *rows->mixed, diag));
  rows->mixed = block;
  for (size_t row = 0; row < table->rows; row++) {
    for (int i = 0; i < 5; i++) {
      KC_TRY(kc_timing_number(table, row, at[i], i == 4 ? 1e-3 : 0, 1e9, &figure[i], diag));
    }
    if (figure[0] + figure[2] <= 0 || (figure[2] > 0) != (figure[3] > 0)) {
      return kc_fail_at(diag, KC_ERR_INPUT, table->path, kc_timing_line(row), 0,
                        "a step of nothing, or decodes without a context; expected a prefill "
                        "chunk, or decodes with a context, or both");
    }
    rows->mixed[rows->mixed_count++] = (struct kc_mixed_row){
        .step = {figure[0], figure[1], figure[2], figure[3], figure[3]}, .us = figure[4]};
  }
  return KC_OK;
}

static enum kc_err read_skew(struct kc_layered_rows *rows, const struct kc_timing_table *table,
                             struct kc_diag *diag)
{
  static const char *const names[] = {"pc", "kp", "n", "kv_mean", "kv_big", "t_mean_us",
                                      "t_max_us", "t_skew_us"};
  int at[8];
  double figure[8];
  void *block = rows->spread;
  KC_ASSERT(table->rows > 0);
  KC_TRY(columns(table, names, 8, at, diag));
  KC_TRY(grow(&block, rows->spread_count, table->rows, sizeof *rows->spread, diag));
  rows->spread = block;
  for (size_t row = 0; row < table->rows; row++) {
    for (int i = 0; i < 8; i++) {
      KC_TRY(kc_timing_number(table, row, at[i], i < 2 ? 0 : 1e-3, 1e9, &figure[i], diag));
    }
    if (figure[4] < figure[3]) {
      return kc_fail_at(diag, KC_ERR_INPUT, table->path, kc_timing_line(row), 0,
                        "kv_big is below kv_mean; the longest context is at least the mean");
    }
    rows->spread[rows->spread_count++] = (struct kc_mixed_row){
        .step = {figure[0], figure[1], figure[2], figure[3], figure[4]}, .us = figure[7],
        .mean_us = figure[5], .longest_us = figure[6]};
  }
  return KC_OK;
}

/* ---- meta.yaml ---- */

/* A whole number below a map; 0 when it is not there. */
static uint32_t figure_of(const struct kc_node *map, const char *key)
{
  uint64_t value = 0;
  const struct kc_node *node = kc_node_get(map, key);
  if (node == NULL || node->kind != KC_NODE_SCALAR) return 0;
  if (!kc_parse_u64(node->text, strlen(node->text), &value) || value > 1000000000) return 0;
  return (uint32_t)value;
}

/* The variant names the weights ("bf16"); keys and values follow it unless the engine was told
 * otherwise. */
static void read_formats(struct kc_layered_model *m, const struct kc_node *root,
                         const struct kc_node *engine)
{
  enum kc_weight_format weights;
  enum kc_kv_format kv;
  const struct kc_node *variant = kc_node_get(root, "variant");
  const struct kc_node *cache = kc_node_get(engine, "kv_cache_dtype");
  if (variant == NULL || variant->kind != KC_NODE_SCALAR ||
      !kc_weight_format_parse(variant->text, &weights)) return;
  snprintf(m->weights, sizeof m->weights, "%s", kc_weight_format_name(weights));
  const bool same = cache == NULL || cache->kind != KC_NODE_SCALAR ||
                    strcmp(cache->text, "auto") == 0;
  if (kc_kv_format_parse(same ? variant->text : cache->text, &kv)) {
    snprintf(m->kv, sizeof m->kv, "%s", kc_kv_format_name(kv));
  }
}

static enum kc_err read_meta(struct kc_layered_rows *rows, const char *path, struct kc_diag *diag)
{
  struct kc_document document;
  KC_TRY(kc_document_load(&document, path, diag));
  const struct kc_node *model = kc_node_get(document.root, "model");
  const struct kc_node *degrees = kc_node_get(document.root, "tp_degrees");
  const struct kc_node *engine = kc_node_get(document.root, "engine_effective");
  const struct kc_node *shapes = kc_node_get(engine, "hf_overrides");
  uint64_t last = 1;
  if (degrees != NULL && degrees->kind == KC_NODE_LIST) {
    for (const struct kc_node *n = degrees->child; n != NULL; n = n->next) {
      if (n->kind != KC_NODE_SCALAR || !kc_parse_u64(n->text, strlen(n->text), &last)) last = 1;
    }
  }
  enum kc_err err = KC_OK;
  if (model == NULL || model->kind != KC_NODE_SCALAR || last < 1 || last > 1024) {
    err = kc_fail_at(diag, KC_ERR_INPUT, path, 1, 0,
                     "no \"model\" here, or tp_degrees that are none; expected the meta.yaml of a "
                     "layer profile");
  } else {
    struct kc_layered_model *m = &rows->model;
    snprintf(m->model, sizeof m->model, "%s", model->text);
    m->heads = figure_of(shapes, "num_attention_heads") * (uint32_t)last;
    m->kv_heads = figure_of(shapes, "num_key_value_heads") * (uint32_t)last;
    m->inter = figure_of(shapes, "intermediate_size") * (uint32_t)last;
    m->hidden = figure_of(shapes, "hidden_size");
    m->head_dim = figure_of(shapes, "head_dim");
    read_formats(m, document.root, engine);
    m->max_batched_tokens = figure_of(engine, "max_num_batched_tokens");
    m->max_sequences = figure_of(engine, "max_num_seqs");
  }
  kc_document_free(&document);
  return err;
}

enum kc_err kc_layered_read(struct kc_layered_rows *rows, const char *path, struct kc_diag *diag)
{
  struct kc_timing_table table;
  const enum part part = part_of(path);
  KC_ASSERT(part != PARTS);
  if (part == PART_META) return read_meta(rows, path, diag);
  KC_TRY(kc_timing_table_load(&table, path, diag));
  enum kc_err err = KC_OK;
  switch (part) {
    case PART_DENSE: err = read_layers(rows, &table, false, diag); break;
    case PART_SEQUENCE: err = read_layers(rows, &table, true, diag); break;
    case PART_ATTENTION: err = read_attention(rows, &table, diag); break;
    case PART_SKEW: err = read_skew(rows, &table, diag); break;
    case PART_META: case PARTS: break;
  }
  kc_timing_table_free(&table);
  return err;
}

void kc_layered_free(struct kc_layered_rows *rows)
{
  free(rows->layer);
  free(rows->mixed);
  free(rows->spread);
  *rows = (struct kc_layered_rows){0};
}
