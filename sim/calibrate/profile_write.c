/* The text form of a profile (see profile_write.h; its grammar stands in sim/cost/profile_load.c).
 *
 *   struct text   bytes on the heap, doubled when full; once memory ran out it stays empty
 *
 * Values of tables are whole thousandths and physics has four digits, both rounded when they were
 * fitted, so what is read back is what was scored. */
#include "sim/calibrate/profile_write.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_COLUMNS = 96 };

struct text {
  char *data; /* NULL after a failure */
  size_t used, capacity;
};

static void put(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *t, const char *format, ...)
{
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  KC_ASSERT(length >= 0 && (size_t)length < sizeof line);
  if (t->data == NULL) return;
  while (t->used + (size_t)length + 1 > t->capacity) {
    char *larger = realloc(t->data, t->capacity * 2);
    if (larger == NULL) {
      free(t->data);
      t->data = NULL;
      return;
    }
    t->data = larger;
    t->capacity *= 2;
  }
  memcpy(t->data + t->used, line, (size_t)length + 1);
  t->used += (size_t)length;
}

/* Double-quoted, on a line of its own when long; a quote or backslash inside is escaped. YAML folds
 * a line break inside into one space. */
static void put_quoted(struct text *t, const char *key, const char *value)
{
  size_t column = strlen(key) + 3;
  put(t, "%s: \"", key);
  for (const char *c = value; *c != '\0'; c++) {
    const size_t word = strcspn(c + 1, " ");
    if (*c == ' ' && column + word + 2 > LINE_COLUMNS) {
      put(t, "\n      ");
      column = 6;
    } else {
      put(t, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
      column++;
    }
  }
  put(t, "\"\n");
}

static void put_comment(struct text *t, const char *comment)
{
  while (*comment != '\0') {
    const size_t length = strcspn(comment, "\n");
    put(t, "# %.*s\n", (int)length, comment);
    comment += length + (comment[length] == '\n' ? 1 : 0);
  }
}

/* A figure of a feature from its scale, as it was rounded when the knot was chosen. */
static double plain(const struct kc_feature *feature, double scaled)
{
  return feature->level ? scaled : kc_exp2_exact(scaled);
}

static void put_table(struct text *t, const struct kc_grid *table,
                      const struct kc_feature *features)
{
  const uint32_t values = kc_grid_values(table);
  KC_ASSERT(values <= KC_TABLE_VALUES_MAX);
  put(t, "      - axes:\n");
  for (uint32_t a = 0; a < table->axes; a++) {
    const struct kc_feature *feature = &features[table->feature[a]];
    put(t, "          - feature: %s\n            at: [", feature->name);
    size_t used = 17;
    for (uint32_t k = 0; k < table->knots[a]; k++) {
      char word[32];
      const size_t length = (size_t)snprintf(word, sizeof word, "%.6g",
                                             plain(feature, table->knot[a][k]));
      const bool wrap = used + length + 3 > LINE_COLUMNS;
      put(t, "%s%s%s", k == 0 ? "" : ",", wrap ? "\n                 " : k == 0 ? "" : " ", word);
      used = wrap ? 17 + length : used + length + (k == 0 ? 0 : 2);
    }
    put(t, "]\n");
  }
  put(t, "        values:\n");
  size_t column = 0;
  for (uint32_t v = 0; v < values; v++) {
    char word[32];
    const long thousandths = lround(table->value[v] * 1000.0);
    const size_t length = (size_t)snprintf(word, sizeof word, "%ld", thousandths);
    if (column > 0 && column + 1 + length > LINE_COLUMNS - 1) {
      put(t, "\"\n");
      column = 0;
    }
    put(t, "%s%s", column == 0 ? "          - \"" : " ", word);
    column += column == 0 ? 13 + length : 1 + length;
  }
  put(t, "\"\n");
}

static void put_residual(struct text *t, const char *key, const struct kc_residual *residual)
{
  put(t, "    %s: {rows: %llu, median: %.5f, p90: %.5f}\n", key,
      (unsigned long long)residual->rows, residual->median, residual->p90);
}

static void put_fit(struct text *t, const struct kc_family_fit *fit,
                    const struct kc_feature *features, uint32_t count, bool physics)
{
  put_quoted(t, "    source", fit->source);
  put(t, "    rows: %llu\n", (unsigned long long)fit->rows);
  put_residual(t, "held_out", &fit->held_out);
  put_residual(t, "fitted", &fit->fitted);
  if (physics) {
    const struct kc_physics *p = &fit->physics;
    put(t, "    physics: {latency_us: %.4g, bandwidth: %.4g, bytes_half: %.4g, rate: %.4g,\n"
        "              flops_half: %.4g, stream_gb_s: %.4g}\n", p->latency_us, p->bandwidth,
        p->bytes_half, p->rate, p->flops_half, p->stream_gb_s);
  }
  put(t, "    range:\n");
  for (uint32_t f = 0; f < count; f++) {
    if (!features[f].ranged) continue;
    put(t, "      %s: [%.9g, %.9g]\n", features[f].name, fit->low[f], fit->high[f]);
  }
  put(t, "    tables:%s\n", fit->table_count == 0 ? " []" : "");
  for (uint32_t i = 0; i < fit->table_count; i++) put_table(t, &fit->table[i], features);
}

static void put_families(struct text *t, const struct kc_profile *profile)
{
  put(t, "families:\n");
  for (int f = 0; f < KC_FAMILIES; f++) {
    uint32_t count;
    const struct kc_feature *features = kc_family_features((enum kc_family)f, &count);
    if (!profile->fit[f].present) continue;
    put(t, "  - family: %s\n", kc_family_name((enum kc_family)f));
    put_fit(t, &profile->fit[f], features, count, true);
  }
}

static void put_layered(struct text *t, const struct kc_profile *profile)
{
  const struct kc_layered_model *m = &profile->layered;
  uint32_t count;
  put_quoted(t, "model:\n  model", m->model);
  put(t, "  tensor: %u\n  hidden: %u\n  heads: %u\n  kv_heads: %u\n  head_dim: %u\n  inter: %u\n",
      m->tensor, m->hidden, m->heads, m->kv_heads, m->head_dim, m->inter);
  if (m->layers > 0) put(t, "  layers: %u\n", m->layers);
  if (m->weights[0] != '\0') put_quoted(t, "  weights", m->weights);
  if (m->kv[0] != '\0') put_quoted(t, "  kv", m->kv);
  put(t, "  max_batched_tokens: %.9g\n  max_sequences: %.9g\nlayers:\n", m->max_batched_tokens,
      m->max_sequences);
  const struct kc_feature *features = kc_layer_features(&count);
  for (uint32_t i = 0; i < profile->layer_count; i++) {
    const struct kc_layer_fit *layer = &profile->layer[i];
    put(t, "  - layer: %s\n    units: %s\n", layer->name,
        layer->by_sequences ? "sequences" : "tokens");
    put_fit(t, &layer->fit, features, count, false);
  }
  put(t, "attention:\n");
  features = kc_mixed_features(&count);
  for (int i = 0; i < KC_MIXED_PARTS; i++) {
    if (!profile->mixed[i].present) continue;
    put(t, "  - part: %s\n", kc_mixed_part_name((enum kc_mixed_part)i));
    put_fit(t, &profile->mixed[i], features, count, false);
  }
}

char *kc_profile_text(const struct kc_profile *profile, const char *comment)
{
  struct text t = {.data = malloc(1 << 16), .capacity = 1 << 16};
  const bool layered = profile->kind == KC_PROFILE_LAYERED;
  KC_ASSERT(profile->kind != KC_PROFILE_DATASHEET);
  put_comment(&t, comment);
  put(&t, "kind: %s\n", layered ? "layered" : "families");
  put_quoted(&t, "name", profile->name);
  put_quoted(&t, "gpu", profile->gpu);
  if (layered) {
    put_layered(&t, profile);
  } else {
    put_families(&t, profile);
  }
  return t.data;
}
