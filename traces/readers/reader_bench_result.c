/* What the serving benchmarks of vLLM (`vllm bench serve --save-result --save-detailed`) and SGLang
 * (`python -m sglang.bench_serving --output-details`) write: one JSON object a run.
 *
 *   {"backend": "vllm", "model_id": "...", "request_rate": 4.0, "completed": 2, ...,
 *    "input_lens":  [100, 200],          one entry a request, in the order sent
 *    "output_lens": [3, 0],
 *    "start_times": [10.0, 11.5],        newer versions; seconds of a monotonic clock
 *    "errors":      ["", "timed out"],   a text says that the request failed
 *    "ttfts": [...], "itls": [[...], ...], "generated_texts": [...]}
 *
 * The lists are walked side by side. Without start_times nothing says when a request was sent
 * (request_rate is what was asked for, often "inf"): all arrive at 0, and the result says so. The
 * measured latencies are no part of the load. */
#include <stdio.h>

#include "traces/readers/trace_reader.h"

enum bench_list { LIST_INPUT, LIST_OUTPUT, LIST_START, LIST_ERROR, BENCH_LISTS };

static const char *const list_names[BENCH_LISTS] = {"input_lens", "output_lens", "start_times",
                                                    "errors"};

static const struct kc_trace_column bench_columns[] = {
    {KC_ROLE_INPUT, true, "input_lens", NULL},
    {KC_ROLE_OUTPUT, true, "output_lens", NULL},
    {KC_ROLE_ARRIVAL, false, "start_times", NULL},
    {KC_ROLE_STATUS, false, "errors", NULL},
    {KC_ROLE_KIND, false, "model_id", NULL},
};

struct bench_run {
  struct kc_json_value list[BENCH_LISTS];
  struct kc_json_cursor cursor[BENCH_LISTS];
  bool there[BENCH_LISTS];
  struct kc_json_value model;
  bool has_model;
};

static enum kc_err find_lists(struct kc_trace_builder *builder, const struct kc_json_value *object,
                              struct bench_run *run)
{
  for (int i = 0; i < BENCH_LISTS; i++) {
    struct kc_json_value *const list = &run->list[i];
    run->there[i] = kc_json_find(object, list_names[i], list) && list->kind != KC_JSON_NULL;
    if (!run->there[i]) continue;
    if (list->kind != KC_JSON_ARRAY) {
      return kc_trace_bad_value(builder, list_names[i], list,
                                "expected a list, one entry a request");
    }
    kc_json_open(&run->cursor[i], list);
  }
  run->has_model =
      kc_json_find(object, "model_id", &run->model) && run->model.kind == KC_JSON_STRING;
  if (run->there[LIST_INPUT] && run->there[LIST_OUTPUT]) return KC_OK;
  return kc_trace_bad_place(builder, object->text,
                            "input_lens or output_lens is missing; was the benchmark run with "
                            "--save-detailed (vLLM) or --output-details (SGLang)?");
}

/* `longer`: the list goes on after `count` entries, where input_lens ends; else the reverse. */
static enum kc_err fail_uneven(struct kc_trace_builder *builder, const struct bench_run *run,
                               int list, bool longer, uint64_t count)
{
  char sentence[160];
  const int length = snprintf(sentence, sizeof sentence,
                              "%s ends after %llu entries and %s goes on; expected one entry a "
                              "request in each",
                              list_names[longer ? LIST_INPUT : list], (unsigned long long)count,
                              list_names[longer ? list : LIST_INPUT]);
  KC_ASSERT(length > 0 && (size_t)length < sizeof sentence);
  return kc_trace_bad_place(builder, run->list[list].text, sentence);
}

/* The next entry of every list that is there; *more is false at the end of all. */
static enum kc_err next_entries(struct kc_trace_builder *builder, struct bench_run *run,
                                uint64_t count, struct kc_json_value entry[BENCH_LISTS], bool *more)
{
  *more = kc_json_next_item(&run->cursor[LIST_INPUT], &entry[LIST_INPUT]);
  KC_TRY(kc_trace_check_cursor(builder, &run->cursor[LIST_INPUT]));
  for (int i = LIST_OUTPUT; i < BENCH_LISTS; i++) {
    if (!run->there[i]) continue;
    const bool here = kc_json_next_item(&run->cursor[i], &entry[i]);
    KC_TRY(kc_trace_check_cursor(builder, &run->cursor[i]));
    if (here != *more) return fail_uneven(builder, run, i, here, count);
  }
  return KC_OK;
}

static enum kc_err emit_entry(struct kc_trace_builder *builder, const struct bench_run *run,
                              const struct kc_json_value entry[BENCH_LISTS])
{
  struct kc_trace_raw raw = {0};
  KC_TRY(kc_trace_value_tokens(builder, "input_lens", &entry[LIST_INPUT], &raw.input_tokens));
  KC_TRY(kc_trace_value_tokens(builder, "output_lens", &entry[LIST_OUTPUT], &raw.output_tokens));
  raw.output_at = entry[LIST_OUTPUT].text;
  if (run->there[LIST_START]) {
    KC_TRY(kc_trace_value_instant(builder, "start_times", &entry[LIST_START], builder->unit,
                                  &raw.arrival));
  }
  const bool error = run->there[LIST_ERROR] && entry[LIST_ERROR].kind == KC_JSON_STRING &&
                     entry[LIST_ERROR].bytes > 0;
  if (error || raw.output_tokens == 0) raw.flags |= KC_ROW_FAILED;
  raw.kind = run->has_model ? run->model.text : NULL;
  raw.kind_bytes = run->has_model ? run->model.bytes : 0;
  return kc_trace_emit(builder, &raw, NULL);
}

static enum kc_err bench_parse_object(struct kc_trace_builder *builder,
                                      const struct kc_json_value *object)
{
  struct bench_run run = {0};
  struct kc_json_value entry[BENCH_LISTS] = {{0}};
  bool more = true;
  KC_TRY(find_lists(builder, object, &run));
  KC_TRY(kc_trace_set_arrivals(builder, run.there[LIST_START]));
  for (uint64_t count = 0; more; count++) {
    KC_TRY(next_entries(builder, &run, count, entry, &more));
    if (more) KC_TRY(emit_entry(builder, &run, entry));
  }
  return KC_OK;
}

const struct kc_trace_reader kc_reader_bench_result = {
    .name = "bench-result",
    .sample = "{\"input_lens\": [100, 200], \"output_lens\": [3, 2], "
              "\"start_times\": [10.0, 11.5]}",
    .framing = KC_FRAMING_DOCUMENT,
    .column = bench_columns,
    .column_count = sizeof bench_columns / sizeof bench_columns[0],
    .unit = KC_UNIT_S,
    .parse_object = bench_parse_object,
};
