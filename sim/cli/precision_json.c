/* The precision table as one JSON document (see precision_output.h). */
#include <stdlib.h>

#include "engine/base/check.h"
#include "sim/cli/cli.h"
#include "sim/cli/precision_output.h"

enum { PRECISION_SCHEMA = 1 };

static json_t *whole(uint64_t value)
{
  return json_integer((json_int_t)value);
}

static json_t *figures_json(const struct kc_figure_set *set)
{
  json_t *object = json_object();
  for (int f = 0; f < KC_FIGURES; f++) {
    json_object_set_new(object, kc_figure_name((enum kc_figure)f),
                        set->known[f] ? json_real(set->value[f]) : json_null());
  }
  return object;
}

static json_t *change_json(const struct kc_precision_table *table, uint32_t row,
                           enum kc_figure figure)
{
  double percent;
  return kc_precision_table_change(table, row, figure, &percent) ? json_real(percent)
                                                                 : json_null();
}

static json_t *holds_json(const struct kc_precision_table *table,
                          const struct kc_precision_row *row)
{
  json_t *list = json_array();
  for (uint32_t c = 0; c < table->context_count; c++) {
    json_array_append_new(list, json_pack("{s:o, s:o}", "tokens", whole(table->context[c]),
                                          "requests", whole(row->holds[c])));
  }
  return list;
}

static json_t *quality_json(const struct kc_quality *figures, uint32_t count,
                            const struct kc_precision_row *row)
{
  json_t *list = json_array();
  for (uint32_t i = 0; i < count; i++) {
    const struct kc_quality *q = &figures[i];
    if (!kc_quality_is_of(q, row->weights, row->as_shipped, row->kv)) continue;
    json_array_append_new(
        list, json_pack("{s:o, s:o, s:f, s:f, s:o, s:o, s:o}", "metric",
                        kc_cli_json_string(q->metric), "unit", kc_cli_json_string(q->unit),
                        "value", q->value, "base", q->base, "against",
                        kc_cli_json_string(q->against), "better", kc_cli_json_string(q->better),
                        "source", kc_cli_json_string(q->source)));
  }
  return list;
}

static json_t *row_json(const struct kc_precision_table *table, uint32_t number)
{
  const struct kc_precision_row *row = &table->row[number];
  const struct kc_point_result *best = kc_precision_table_best(table, number);
  const bool loaded = row->why.code == KC_OK;
  json_t *object = json_object();
  json_object_set_new(object, "weights", kc_cli_json_string(row->weights));
  json_object_set_new(object, "kv", kc_cli_json_string(row->kv));
  json_object_set_new(object, "refused", loaded ? json_null() : kc_cli_json_string(row->why.text));
  json_object_set_new(object, "fits", json_boolean(loaded && row->fit.fits));
  json_object_set_new(object, "weights_per_gpu_bytes", whole(row->fit.weights_bytes));
  json_object_set_new(object, "kv_tokens", whole(row->fit.kv_tokens));
  json_object_set_new(object, "holds", holds_json(table, row));
  json_object_set_new(object, "profile", kc_cli_json_string(row->profile));
  json_object_set_new(object, "profile_of_this_kv_format", json_boolean(row->other_profile));
  json_object_set_new(object, "frontier", table->closed ? whole(row->frontier) : json_null());
  json_object_set_new(object, "largest_fit", table->closed ? whole(row->largest) : json_null());
  json_object_set_new(object, "largest_tried",
                      table->closed ? whole(row->largest_tried) : json_null());
  json_object_set_new(object, "best_concurrency",
                      table->closed && best != NULL ? whole(row->best_concurrency) : json_null());
  const char *trust =
      best == NULL ? "" : kc_cost_level_name(kc_precision_table_trust(table, number));
  json_object_set_new(object, "missed", row->missed == NULL ? json_null()
                                                            : json_string(row->missed->text));
  json_object_set_new(object, "trust", best == NULL ? json_null() : json_string(trust));
  json_object_set_new(object, "figures", best == NULL ? json_null()
                                                      : figures_json(&best->figures));
  json_object_set_new(object, "throughput_change_percent",
                      change_json(table, number, KC_FIGURE_OUTPUT_TOK_S));
  json_object_set_new(object, "cost_change_percent",
                      change_json(table, number, KC_FIGURE_USD_PER_MTOK));
  const struct kc_quality_list *quality = table->quality;
  json_object_set_new(object, "quality", quality_json(quality->entry, quality->count, row));
  json_object_set_new(object, "quality_of_small_models",
                      quality_json(quality->stand_in, quality->stand_ins, row));
  return object;
}

int kc_precision_print_json(const struct kc_precision_table *table)
{
  json_t *root = json_object(), *rows = json_array();
  const struct kc_scenario *scenario = table->scenario;
  KC_ASSERT(table->row_count > 0);
  for (uint32_t r = 0; r < table->row_count; r++) {
    json_array_append_new(rows, row_json(table, r));
  }
  json_object_set_new(root, "schema", json_integer(PRECISION_SCHEMA));
  json_object_set_new(root, "name", kc_cli_json_string(scenario->name));
  json_object_set_new(root, "model", kc_cli_json_string(scenario->model.name));
  json_object_set_new(root, "gpu", kc_cli_json_string(scenario->pool[0].gpu.name));
  json_object_set_new(root, "gpus", whole(kc_run_gpus(scenario)));
  json_object_set_new(root, "request_tokens", table->closed ? whole(table->length) : json_null());
  json_t *slo = json_array();
  for (uint32_t i = 0; i < table->slo_count; i++) {
    json_array_append_new(slo, json_string(table->slo[i].text));
  }
  json_object_set_new(root, "slo", slo);
  json_object_set_new(root, "rows", rows);
  char *verdict = kc_precision_verdict(table);
  json_object_set_new(root, "verdict", verdict == NULL ? NULL : json_string(verdict));
  free(verdict);
  return kc_cli_print_json(root);
}
