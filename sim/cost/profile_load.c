/* Reads a profile file (see profile.h). The fitter writes the same shape.
 *
 *   kind: families                       or layered
 *   name, gpu                            model: {...} when layered
 *   families:                            layers: / attention: when layered
 *     - family: gemm-bf16                  layer: qkv_proj, units: tokens / part: decode
 *       source, rows, held_out, fitted
 *       physics: {latency_us, ...}         families only
 *       range: {m: [1, 32768], ...}
 *       tables:
 *         - axes: [{feature: m, at: [1, 2, 4]}, ...]
 *           values: ["-12 3 40", ...]      thousandths; last axis fastest; cut into lines anywhere
 *
 * Strict: unknown keys, features that the family does not have, knots that do not ascend, a number
 * of values that is not the product of the knots, figures out of range are all refused with line
 * and column. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/number.h"
#include "engine/base/option.h"
#include "sim/cost/profile_internal.h"

struct reader {
  struct kc_profile *profile;
  const char *path;
  struct kc_diag *diag;
};

/* A fit as its map is written, before features have an index. */
struct entry {
  char what[32]; /* family, layer or part */
  int units;
  struct kc_family_fit fit;
};

#define E_TEXT(FIELD) .offset = offsetof(struct entry, FIELD), \
                      .size = sizeof((struct entry *)0)->FIELD
#define E(FIELD) .offset = offsetof(struct entry, fit.FIELD)
#define RESIDUAL(KEY, FIELD)                                                                   \
  {.key = KEY ".rows", .type = KC_OPTION_U64, E(FIELD.rows), .max = 1e12,                      \
   .help = "rows scored", .required = true},                                                   \
  {.key = KEY ".median", .type = KC_OPTION_DOUBLE, E(FIELD.median), .max = 1e6,                \
   .help = "of |predicted / measured - 1|", .required = true},                                 \
  {.key = KEY ".p90", .type = KC_OPTION_DOUBLE, E(FIELD.p90), .max = 1e6,                      \
   .help = "the same, 90th percentile", .required = true}
#define COMMON                                                                                 \
  {.key = "source", .type = KC_OPTION_TEXT, .offset = offsetof(struct entry, fit.source),      \
   .size = KC_SOURCE_BYTES, .values = "TEXT", .help = "who measured what", .required = true},  \
  {.key = "rows", .type = KC_OPTION_U64, E(rows), .min = 1, .max = 1e12,                       \
   .help = "measured", .required = true},                                                      \
  RESIDUAL("held_out", held_out), RESIDUAL("fitted", fitted),                                  \
  {.key = "range", .type = KC_OPTION_SUBTREE, .help = "least and most of each feature",        \
   .required = true},                                                                          \
  {.key = "tables", .type = KC_OPTION_SUBTREE, .help = "corrections", .required = true}

static const struct kc_option family_options[] = {
  {.key = "family", .type = KC_OPTION_TEXT, E_TEXT(what), .values = "NAME", .help = "op family",
   .required = true},
  COMMON,
  {.key = "physics.latency_us", .type = KC_OPTION_DOUBLE, E(physics.latency_us), .max = 1e6,
   .help = "of one call", .required = true},
  {.key = "physics.bandwidth", .type = KC_OPTION_DOUBLE, E(physics.bandwidth), .min = 1e-4,
   .max = 100, .help = "part of the memory bandwidth", .required = true},
  {.key = "physics.bytes_half", .type = KC_OPTION_DOUBLE, E(physics.bytes_half), .max = 1e12,
   .help = "bytes at which half of it is reached", .required = true},
  {.key = "physics.rate", .type = KC_OPTION_DOUBLE, E(physics.rate), .min = 1e-4, .max = 100,
   .help = "part of the dense rate", .required = true},
  {.key = "physics.flops_half", .type = KC_OPTION_DOUBLE, E(physics.flops_half), .max = 1e18,
   .help = "operations at which half of it is reached", .required = true},
  {.key = "physics.stream_gb_s", .type = KC_OPTION_DOUBLE, E(physics.stream_gb_s), .max = 1e9,
   .help = "taken in by one multiprocessor", .required = true},
};

static const struct kc_option layer_options[] = {
  {.key = "layer", .type = KC_OPTION_TEXT, E_TEXT(what), .values = "NAME", .help = "of the model",
   .required = true},
  {.key = "units", .type = KC_OPTION_CHOICE, .offset = offsetof(struct entry, units),
   .values = "tokens|sequences", .help = "what its time grows with", .required = true},
  COMMON,
};

static const struct kc_option part_options[] = {
  {.key = "part", .type = KC_OPTION_TEXT, E_TEXT(what), .values = "NAME",
   .help = "decode, prefill, mixed or spread", .required = true},
  COMMON,
};

#define P(FIELD) .offset = offsetof(struct kc_profile, FIELD)
#define P_TEXT(FIELD) P(FIELD), .size = sizeof((struct kc_profile *)0)->FIELD

static const struct kc_option file_options[] = {
  {.key = "kind", .type = KC_OPTION_CHOICE, P(kind), .values = "families|layered",
   .help = "what the file holds", .required = true},
  {.key = "name", .type = KC_OPTION_TEXT, P_TEXT(name), .values = "NAME",
   .help = "framework and version", .required = true},
  {.key = "gpu", .type = KC_OPTION_TEXT, P_TEXT(gpu), .values = "NAME", .help = "measured on",
   .required = true},
  {.key = "families", .type = KC_OPTION_SUBTREE, .help = "fits by op family"},
  {.key = "model", .type = KC_OPTION_SUBTREE, .help = "layered: which model"},
  {.key = "layers", .type = KC_OPTION_SUBTREE, .help = "layered: times by tokens"},
  {.key = "attention", .type = KC_OPTION_SUBTREE, .help = "layered: mixed steps"},
};

#define M(FIELD) .offset = offsetof(struct kc_layered_model, FIELD)

static const struct kc_option model_options[] = {
  {.key = "model", .type = KC_OPTION_TEXT, M(model), .size = 64, .values = "NAME",
   .help = "that was measured", .required = true},
  {.key = "tensor", .type = KC_OPTION_U32, M(tensor), .min = 1, .max = 1024,
   .help = "tensor degree", .required = true},
  {.key = "layers", .type = KC_OPTION_U32, M(layers), .max = 1e5, .fallback = "0",
   .help = "of the whole model; 0 = not said"},
  {.key = "weights", .type = KC_OPTION_TEXT, M(weights), .size = 160, .fallback = "",
   .values = "FORMAT", .help = "of the weights that were measured; empty = not said"},
  {.key = "kv", .type = KC_OPTION_TEXT, M(kv), .size = 16, .fallback = "", .values = "FORMAT",
   .help = "of the keys and values that were measured; empty = not said"},
  {.key = "hidden", .type = KC_OPTION_U32, M(hidden), .max = 1e7, .fallback = "0",
   .help = "of the whole model; 0 = not said"},
  {.key = "heads", .type = KC_OPTION_U32, M(heads), .max = 1e5, .fallback = "0",
   .help = "of the whole model; 0 = not said"},
  {.key = "kv_heads", .type = KC_OPTION_U32, M(kv_heads), .max = 1e5, .fallback = "0",
   .help = "of the whole model; 0 = not said"},
  {.key = "head_dim", .type = KC_OPTION_U32, M(head_dim), .max = 1e5, .fallback = "0",
   .help = "0 = not said"},
  {.key = "inter", .type = KC_OPTION_U32, M(inter), .max = 1e7, .fallback = "0",
   .help = "of the whole model; 0 = not said"},
  {.key = "max_batched_tokens", .type = KC_OPTION_DOUBLE, M(max_batched_tokens), .max = 1e9,
   .fallback = "0", .help = "of the engine that was measured; 0 = not said"},
  {.key = "max_sequences", .type = KC_OPTION_DOUBLE, M(max_sequences), .max = 1e9,
   .fallback = "0", .help = "of the engine that was measured; 0 = not said"},
};

#define ROWS(TABLE) (sizeof(TABLE) / sizeof((TABLE)[0]))

static enum kc_err fail_node(const struct reader *r, const struct kc_node *node,
                             const char *sentence)
{
  return kc_fail_at(r->diag, KC_ERR_INPUT, r->path, node->line, node->column, "%s", sentence);
}

static enum kc_err read_map(const struct reader *r, const struct kc_option *options, size_t count,
                            void *target, const struct kc_node *map, const char *prefix)
{
  struct kc_diag_list problems;
  kc_diag_list_init(&problems);
  if (map->kind != KC_NODE_MAP) {
    return fail_node(r, map, "a map of keys and values is expected here");
  }
  kc_options_default(options, count, target);
  kc_options_read_map(options, count, target, map, r->path, prefix, &problems);
  if (problems.count > 0 && r->diag != NULL) *r->diag = problems.items[0];
  return kc_diag_list_result(&problems);
}

static enum kc_err read_number(const struct reader *r, const struct kc_node *node, double *out)
{
  if (node->kind == KC_NODE_SCALAR && !node->quoted &&
      kc_parse_double(node->text, strlen(node->text), out) && *out >= -1e15 && *out <= 1e15) {
    return KC_OK;
  }
  return fail_node(r, node, "a plain number is expected here");
}

/* Index of a feature, or a sentence that lists those there are. */
static enum kc_err find_feature(const struct reader *r, const struct kc_node *node,
                                const char *name, const struct kc_feature *features,
                                uint32_t count, uint32_t *out)
{
  char names[192] = "";
  size_t at = 0;
  for (*out = 0; *out < count; (*out)++) {
    if (strcmp(features[*out].name, name) == 0) return KC_OK;
    const int wrote = snprintf(names + at, sizeof names - at, " %s", features[*out].name);
    at += wrote > 0 && (size_t)wrote < sizeof names - at ? (size_t)wrote : 0;
  }
  return kc_fail_at(r->diag, KC_ERR_INPUT, r->path, node->line, node->column,
                    "\"%.40s\" is not a feature of this entry; there are:%s", name, names);
}

/* ---- tables ---- */

static enum kc_err read_axis(const struct reader *r, const struct kc_node *map,
                             const struct kc_feature *features, uint32_t count,
                             struct kc_grid *table)
{
  const struct kc_node *feature = kc_node_get(map, "feature");
  const struct kc_node *at = kc_node_get(map, "at");
  const uint32_t a = table->axes;
  if (feature == NULL || at == NULL || feature->kind != KC_NODE_SCALAR ||
      at->kind != KC_NODE_LIST || map->child->next == NULL || map->child->next->next != NULL) {
    return fail_node(r, map, "an axis is {feature: NAME, at: [NUMBER, ...]} and nothing else");
  }
  KC_TRY(find_feature(r, feature, feature->text, features, count, &table->feature[a]));
  for (const struct kc_node *n = at->child; n != NULL; n = n->next) table->knots[a]++;
  if (table->knots[a] < 1 || table->knots[a] > KC_KNOTS_MAX) {
    return fail_node(r, at, "an axis has 1 to 32 knots");
  }
  table->knot[a] = kc_profile_numbers(r->profile, table->knots[a]);
  if (table->knot[a] == NULL) return fail_node(r, at, "too many figures for one profile");
  const struct kc_feature *of = &features[table->feature[a]];
  uint32_t i = 0;
  for (const struct kc_node *n = at->child; n != NULL; n = n->next, i++) {
    double figure;
    KC_TRY(read_number(r, n, &figure));
    if (!of->level && figure <= 0) return fail_node(r, n, "knots of a size are above 0");
    table->knot[a][i] = kc_feature_scale(of, figure);
    if (i > 0 && table->knot[a][i] <= table->knot[a][i - 1]) {
      return fail_node(r, n, "the knots of an axis must ascend");
    }
  }
  table->axes++;
  return KC_OK;
}

/* Whole thousandths, separated by one space. */
static enum kc_err read_values(const struct reader *r, const struct kc_node *list,
                               struct kc_grid *table)
{
  const uint32_t expected = kc_grid_values(table);
  uint32_t count = 0;
  for (const struct kc_node *line = list->child; line != NULL; line = line->next) {
    if (line->kind != KC_NODE_SCALAR) return fail_node(r, line, "a line of values is text");
    for (const char *p = line->text; *p != '\0';) {
      const size_t length = strcspn(p, " ");
      int64_t value;
      if (!kc_parse_i64(p, length, &value) || value < -100000 || value > 100000) {
        return fail_node(r, line, "values are whole numbers from -100000 to 100000, separated by "
                         "single spaces");
      }
      if (count == expected) return fail_node(r, line, "more values than the axes have room for");
      table->value[count++] = (double)value / 1000.0;
      p += length + (p[length] == ' ' ? 1 : 0);
    }
  }
  if (count == expected) return KC_OK;
  return kc_fail_at(r->diag, KC_ERR_INPUT, r->path, list->line, list->column,
                    "%u values, but the axes make %u", count, expected);
}

static enum kc_err read_table(const struct reader *r, const struct kc_node *map,
                              const struct kc_feature *features, uint32_t count,
                              struct kc_grid *table)
{
  const struct kc_node *axes = kc_node_get(map, "axes");
  const struct kc_node *values = kc_node_get(map, "values");
  if (axes == NULL || values == NULL || axes->kind != KC_NODE_LIST ||
      values->kind != KC_NODE_LIST || axes->child == NULL || map->child->next->next != NULL) {
    return fail_node(r, map, "a table is {axes: [...], values: [...]} and nothing else");
  }
  uint64_t product = 1;
  for (const struct kc_node *n = axes->child; n != NULL; n = n->next) {
    if (table->axes == KC_TABLE_AXES_MAX) return fail_node(r, n, "a table has at most 4 axes");
    KC_TRY(read_axis(r, n, features, count, table));
    product *= table->knots[table->axes - 1];
  }
  if (product > KC_TABLE_VALUES_MAX) return fail_node(r, axes, "a table has at most 8192 values");
  table->value = kc_profile_numbers(r->profile, product);
  if (table->value == NULL) return fail_node(r, map, "too many figures for one profile");
  return read_values(r, values, table);
}

static enum kc_err read_range(const struct reader *r, const struct kc_node *map,
                              const struct kc_feature *features, uint32_t count,
                              struct kc_family_fit *fit)
{
  if (map->kind != KC_NODE_MAP) return fail_node(r, map, "range is {FEATURE: [LEAST, MOST], ...}");
  for (uint32_t f = 0; f < count; f++) { /* a feature that is not named is not bounded */
    fit->low[f] = -1e300;
    fit->high[f] = 1e300;
  }
  for (const struct kc_node *n = map->child; n != NULL; n = n->next) {
    uint32_t f;
    KC_TRY(find_feature(r, n, n->key, features, count, &f));
    const struct kc_node *low = n->kind == KC_NODE_LIST ? n->child : NULL;
    if (low == NULL || low->next == NULL || low->next->next != NULL) {
      return fail_node(r, n, "a range is [LEAST, MOST]");
    }
    KC_TRY(read_number(r, low, &fit->low[f]));
    KC_TRY(read_number(r, low->next, &fit->high[f]));
    if (fit->low[f] > fit->high[f]) return fail_node(r, n, "the least is above the most");
  }
  return KC_OK;
}

/* Range and tables, which the option table leaves to us. */
static enum kc_err read_fit(const struct reader *r, const struct kc_node *map,
                            const struct kc_feature *features, uint32_t count,
                            struct kc_family_fit *fit)
{
  const struct kc_node *tables = kc_node_get(map, "tables");
  KC_TRY(read_range(r, kc_node_get(map, "range"), features, count, fit));
  if (tables->kind != KC_NODE_LIST) return fail_node(r, tables, "tables is a list; [] for none");
  for (const struct kc_node *n = tables->child; n != NULL; n = n->next) {
    if (fit->table_count == KC_TABLES_MAX) return fail_node(r, n, "an entry has at most 8 tables");
    if (n->kind != KC_NODE_MAP || n->child == NULL || n->child->next == NULL) {
      return fail_node(r, n, "a table is {axes: [...], values: [...]} and nothing else");
    }
    KC_TRY(read_table(r, n, features, count, &fit->table[fit->table_count++]));
  }
  fit->present = true;
  return KC_OK;
}

/* ---- entries ---- */

static enum kc_err read_family(const struct reader *r, const struct kc_node *map)
{
  struct entry entry = {.units = 0};
  enum kc_family family;
  uint32_t count;
  KC_TRY(read_map(r, family_options, ROWS(family_options), &entry, map, "families."));
  if (!kc_family_parse(entry.what, &family)) {
    return kc_fail_at(r->diag, KC_ERR_INPUT, r->path, map->line, map->column,
                      "\"%s\" is no op family; expected a name such as gemm-bf16", entry.what);
  }
  if (r->profile->fit[family].present) return fail_node(r, map, "this family is there twice");
  const struct kc_feature *features = kc_family_features(family, &count);
  KC_TRY(read_fit(r, map, features, count, &entry.fit));
  r->profile->fit[family] = entry.fit;
  return KC_OK;
}

static enum kc_err read_layer(const struct reader *r, const struct kc_node *map)
{
  struct entry entry = {.units = 0};
  uint32_t count;
  KC_TRY(read_map(r, layer_options, ROWS(layer_options), &entry, map, "layers."));
  if (kc_profile_layer(r->profile, entry.what) >= 0) {
    return fail_node(r, map, "this layer is there twice");
  }
  if (r->profile->layer_count == KC_LAYERS_PER_PROFILE) {
    return fail_node(r, map, "a profile has at most 24 layers");
  }
  const struct kc_feature *features = kc_layer_features(&count);
  KC_TRY(read_fit(r, map, features, count, &entry.fit));
  if (entry.fit.table_count != 1) return fail_node(r, map, "a layer has one table");
  struct kc_layer_fit *layer = &r->profile->layer[r->profile->layer_count++];
  memcpy(layer->name, entry.what, sizeof layer->name);
  layer->by_sequences = entry.units == 1;
  layer->fit = entry.fit;
  return KC_OK;
}

static enum kc_err read_part(const struct reader *r, const struct kc_node *map)
{
  struct entry entry = {.units = 0};
  uint32_t count;
  KC_TRY(read_map(r, part_options, ROWS(part_options), &entry, map, "attention."));
  const struct kc_feature *features = kc_mixed_features(&count);
  for (int i = 0; i < KC_MIXED_PARTS; i++) {
    if (strcmp(kc_mixed_part_name((enum kc_mixed_part)i), entry.what) != 0) continue;
    if (r->profile->mixed[i].present) return fail_node(r, map, "this part is there twice");
    KC_TRY(read_fit(r, map, features, count, &entry.fit));
    r->profile->mixed[i] = entry.fit;
    return KC_OK;
  }
  return fail_node(r, map, "part is one of decode, prefill, mixed, spread");
}

static enum kc_err read_list(const struct reader *r, const struct kc_node *root, const char *key,
                             enum kc_err (*read)(const struct reader *, const struct kc_node *))
{
  const struct kc_node *list = kc_node_get(root, key);
  if (list == NULL || list->kind != KC_NODE_LIST || list->child == NULL) {
    return kc_fail_at(r->diag, KC_ERR_INPUT, r->path, root->line, root->column,
                      "\"%s\" must be a list of at least one entry in a profile of this kind", key);
  }
  for (const struct kc_node *n = list->child; n != NULL; n = n->next) KC_TRY(read(r, n));
  return KC_OK;
}

static enum kc_err read_layered(const struct reader *r, const struct kc_node *root)
{
  const struct kc_node *model = kc_node_get(root, "model");
  if (model == NULL) return fail_node(r, root, "a layered profile needs \"model\"");
  KC_TRY(read_map(r, model_options, ROWS(model_options), &r->profile->layered, model, "model."));
  KC_TRY(read_list(r, root, "layers", read_layer));
  KC_TRY(read_list(r, root, "attention", read_part));
  for (int i = 0; i < KC_MIXED_SPREAD; i++) {
    if (r->profile->mixed[i].present) continue;
    return fail_node(r, kc_node_get(root, "attention"),
                     "the parts decode, prefill and mixed must be there");
  }
  return KC_OK;
}

static enum kc_err read_document(const struct reader *r, const struct kc_document *document)
{
  int kind = 0;
  const struct kc_node *root = document->root;
  KC_TRY(read_map(r, file_options, ROWS(file_options), r->profile, root, ""));
  memcpy(&kind, &r->profile->kind, sizeof kind);
  const bool layered = kind == 1;
  static const char *const other[2][3] = {{"model", "layers", "attention"},
                                          {"families", "families", "families"}};
  for (int i = 0; i < 3; i++) {
    const struct kc_node *stray = kc_node_get(root, other[layered][i]);
    if (stray != NULL) return fail_node(r, stray, "this key belongs to the other kind of profile");
  }
  return layered ? read_layered(r, root) : read_list(r, root, "families", read_family);
}

static enum kc_err take_document(struct kc_profile **out, const struct kc_document *document,
                                 struct kc_diag *diag)
{
  struct reader r = {.profile = kc_profile_create(KC_NUMBERS_MAX), .path = document->path,
                     .diag = diag};
  if (r.profile == NULL) {
    return kc_fail(diag, KC_ERR_MEMORY, "out of memory: a profile of kernels");
  }
  memcpy(r.profile->path, document->path, sizeof r.profile->path);
  memcpy(r.profile->sha256, document->sha256, sizeof r.profile->sha256);
  const enum kc_err err = read_document(&r, document);
  if (err != KC_OK) {
    kc_profile_destroy(r.profile);
    return err;
  }
  *out = r.profile;
  return KC_OK;
}

enum kc_err kc_profile_load(struct kc_profile **out, const char *path, struct kc_diag *diag)
{
  struct kc_document document;
  KC_ASSERT(out != NULL && path != NULL);
  *out = NULL;
  KC_TRY(kc_document_load(&document, path, diag));
  const enum kc_err err = take_document(out, &document, diag);
  kc_document_free(&document);
  return err;
}

enum kc_err kc_profile_parse(struct kc_profile **out, const char *path, const char *data,
                             size_t bytes, struct kc_diag *diag)
{
  struct kc_document document;
  KC_ASSERT(out != NULL && path != NULL);
  *out = NULL;
  KC_TRY(kc_document_parse(&document, path, data, bytes, diag));
  const enum kc_err err = take_document(out, &document, diag);
  kc_document_free(&document);
  return err;
}
