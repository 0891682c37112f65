/* The resolved scenario as text: every default spelled out, in one fixed order.
 *
 * The text is YAML that kc_scenario_load reads back to the same scenario, and it is stored with
 * every result. Names of files are written as the user gave them, numbers in a form that parses
 * back to the same value, so that the text depends on the question alone and not on the machine.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/scenario/source.h"

/* A double-quoted YAML scalar. Control characters were refused where the text was read. */
static void put_text(FILE *out, const char *text)
{
  KC_ASSERT(text != NULL);
  fputc('"', out);
  for (; *text != '\0'; text++) {
    if (*text == '"' || *text == '\\') fputc('\\', out);
    fputc(*text, out);
  }
  fputc('"', out);
}

/* A decimal that parses back to `value`: 15 digits say what a person wrote, 17 say anything. */
static void put_number(FILE *out, double value)
{
  KC_ASSERT(value == value);
  char text[40];
  for (int digits = 15; digits <= 17; digits++) {
    double back = 0;
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (kc_parse_double(text, strlen(text), &back) && back == value) break;
  }
  fputs(text, out);
}

static const char *truth(bool value)
{
  return value ? "true" : "false";
}

static void put_weights(FILE *out, const struct kc_precision *precision)
{
  bool any = false;
  for (int kind = 0; kind < KC_TENSOR_CLASSES; kind++) {
    const enum kc_weight_format format = precision->weight[kind];
    if (format == KC_WEIGHT_DEFAULT) continue;
    fprintf(out, "%s%s: %s", any ? ", " : "    weights: {",
            kc_tensor_class_name((enum kc_tensor_class)kind), kc_weight_format_name(format));
    any = true;
  }
  if (any) fputs("}\n", out);
}

static void put_memory(FILE *out, const struct kc_memory_config *memory)
{
  KC_ASSERT(memory->rule != KC_RULE_FIXED || memory->fraction == 0);
  KC_ASSERT(memory->pages == 0 || memory->kv_budget_bytes == 0);
  fprintf(out, "    memory: {rule: %s", kc_memory_rule_name(memory->rule));
  if (memory->fraction > 0) {
    fputs(", fraction: ", out);
    put_number(out, memory->fraction);
  }
  if (memory->kv_budget_bytes > 0) {
    fprintf(out, ", kv_budget: %llu", (unsigned long long)memory->kv_budget_bytes);
  }
  if (memory->pages > 0) fprintf(out, ", pages: %llu", (unsigned long long)memory->pages);
  fprintf(out, ", extra: %llu}\n", (unsigned long long)memory->extra_bytes);
}

static void put_faults(FILE *out, const struct kc_inject_config *inject)
{
  const char *separator = "";
  if (inject->kinds == 0) return;
  KC_ASSERT(inject->every_steps > 0);
  fputs("    faults: {kinds: \"", out);
  for (int bit = 0; bit < KC_INJECT_KINDS; bit++) {
    if ((inject->kinds >> bit & 1) == 0) continue;
    fprintf(out, "%s%s", separator, kc_inject_kind_name((enum kc_inject_kind)(1 << bit)));
    separator = ",";
  }
  fprintf(out, "\", every_steps: %u}\n", inject->every_steps);
}

/* Keys that every policy reads, then those of this one. */
static void put_scheduler(FILE *out, const struct kc_pool_spec *pool)
{
  const struct kc_sched_config *sched = &pool->sched;
  KC_ASSERT(pool->policy != NULL);
  fputs("    scheduler:\n      policy: ", out);
  put_text(out, pool->policy_name);
  fputc('\n', out);
  if (pool->max_running_given || pool->policy->server == KC_SERVER_VLLM) {
    fprintf(out, "      max_running: %u\n", sched->max_running);
  }
  fprintf(out, "      max_model_len: %llu\n      chunked_prefill: %s\n      overlap: %s\n"
          "      queue: %s\n      queue_limit: %u\n", (unsigned long long)sched->max_model_len,
          truth(sched->chunked_prefill), truth(sched->overlap), kc_queue_order_name(sched->order),
          pool->queue_limit);
  if (pool->policy->server == KC_SERVER_VLLM) {
    fprintf(out, "      max_batched_tokens: %u\n      reserve_full_prompt: %s\n"
            "      long_prefill_token_threshold: %u\n", sched->max_batched_tokens,
            truth(sched->reserve_full_prompt), sched->long_prefill_token_threshold);
    return;
  }
  fprintf(out, "      chunked_prefill_size: %u\n      max_prefill_tokens: %u\n"
          "      mixed_chunk: %s\n      schedule_conservativeness: ", sched->chunked_prefill_size,
          sched->max_prefill_tokens, truth(sched->mixed_chunk));
  put_number(out, sched->schedule_conservativeness);
  fputc('\n', out);
}

static void put_pool(FILE *out, const struct kc_pool_spec *pool)
{
  KC_ASSERT(pool->policy != NULL);
  KC_ASSERT(pool->memory.page_size == pool->sched.page_size);
  const struct kc_sched_config *sched = &pool->sched;
  fputs("  - name: ", out);
  put_text(out, pool->name);
  fprintf(out, "\n    role: %s\n    gpu: ", kc_role_name(pool->role));
  put_text(out, pool->gpu_name);
  fputs("\n    profile: ", out);
  put_text(out, pool->profile_name);
  fprintf(out, "\n    replicas: %u\n    parallel: {tensor: %u, pipeline: %u}\n", pool->replicas,
          pool->memory.tensor, pool->memory.pipeline);
  put_weights(out, &pool->precision);
  if (pool->moe_skew > 0) {
    fputs("    moe: {skew: ", out);
    put_number(out, pool->moe_skew);
    fputs("}\n", out);
  }
  fprintf(out, "    kv: {k_format: %s, v_format: %s, page_size: %u, prefix_cache: %s, "
          "share_tenants: %s, integrity: %s}\n", kc_kv_format_name(pool->precision.k_format),
          kc_kv_format_name(pool->precision.v_format), sched->page_size,
          kc_caching_name(pool->caching), truth(pool->share_tenants),
          kc_integrity_name(pool->integrity));
  put_faults(out, &pool->inject);
  put_memory(out, &pool->memory);
  fprintf(out, "    draft: {layers: %u}\n", pool->memory.draft_layers);
  put_scheduler(out, pool);
}

static void put_router(FILE *out, const struct kc_router_spec *router)
{
  KC_ASSERT(router->overflow.denominator > 0);
  fprintf(out, "router: {policy: %s", kc_router_policy_name(router->policy));
  if (router->policy >= KC_ROUTER_SESSION_AFFINITY) {
    fprintf(out, ", overflow: %llu/%llu", (unsigned long long)router->overflow.numerator,
            (unsigned long long)router->overflow.denominator);
  }
  if (router->policy == KC_ROUTER_SESSION_AFFINITY) {
    fprintf(out, ", prefix_tokens: %u", router->prefix_tokens);
  }
  fputs("}\n", out);
}

static void put_max_tokens(FILE *out, const struct kc_workload_spec *workload)
{
  if (workload->max_tokens_rule == KC_MAX_TOKENS_TRACE) {
    fputs("  max_tokens: trace\n", out);
  } else if (workload->max_tokens_rule == KC_MAX_TOKENS_COUNT) {
    fprintf(out, "  max_tokens: %llu\n", (unsigned long long)workload->max_tokens_count);
  } else {
    KC_ASSERT(workload->max_tokens_rule == KC_MAX_TOKENS_RATIO);
    fputs("  max_tokens: ratio ", out);
    put_number(out, workload->max_tokens_ratio);
    fputc('\n', out);
  }
}

/* "90s", exact. */
static void put_duration(FILE *out, const char *key, kc_ps time_ps)
{
  KC_ASSERT(time_ps >= 0);
  char text[64];
  kc_format_fixed(time_ps, 12, text);
  fprintf(out, "  %s: %ss\n", key, text);
}

static void put_fraction(FILE *out, const char *key, struct kc_fraction fraction)
{
  KC_ASSERT(fraction.denominator > 0);
  fprintf(out, "  %s: %llu/%llu\n", key, (unsigned long long)fraction.numerator,
          (unsigned long long)fraction.denominator);
}

static void put_transform(FILE *out, const struct kc_transform *transform)
{
  put_duration(out, "from", transform->from_ps);
  if (transform->to_ps != KC_PS_NEVER) put_duration(out, "to", transform->to_ps);
  fprintf(out, "  skip: %llu\n", (unsigned long long)transform->skip_rows);
  if (transform->limit_rows != UINT64_MAX) {
    fprintf(out, "  limit: %llu\n", (unsigned long long)transform->limit_rows);
  }
  put_fraction(out, "sample", transform->sample);
  if (transform->idle_cap_ps != KC_PS_NEVER) put_duration(out, "idle_cap", transform->idle_cap_ps);
  put_fraction(out, "rate", transform->rate);
  put_duration(out, "spread", transform->spread_ps);
}

/* A name that the format decides, unless the scenario does. */
static const char *or_format(const char *name, bool said)
{
  KC_ASSERT(name != NULL);
  return said ? name : "format";
}

static void put_trace(FILE *out, const struct kc_workload_spec *workload)
{
  const struct kc_trace_options *options = &workload->trace_options;
  fputs("  trace: ", out);
  put_text(out, workload->trace_name);
  fprintf(out, "\n  format: %s\n  loop: %s\n  unit: %s\n", workload->trace_format,
          kc_loop_name(workload->loop),
          or_format(kc_time_unit_name(options->time_unit), options->time_unit != KC_UNIT_FORMAT));
  if (options->block_tokens > 0) fprintf(out, "  block_tokens: %u\n", options->block_tokens);
  fprintf(out, "  tail: %s\n  zero_output: %s\n",
          or_format(kc_tail_rule_name(options->tail), options->tail != KC_TAIL_NONE),
          kc_zero_output_name(options->zero_output));
  if (options->missing_output_tokens > 0) {
    fprintf(out, "  missing_output: %u\n", options->missing_output_tokens);
  }
  fprintf(out, "  failed: %s\n  cancelled: %s\n", kc_row_policy_name(options->failed),
          kc_row_policy_name(options->cancelled));
  put_transform(out, &workload->transform);
}

/* "timeout: 90s, " */
static void put_patience(FILE *out, const struct kc_patience *patience)
{
  char text[64];
  KC_ASSERT(patience->cancel_denominator > 0);
  if (patience->timeout_ps != KC_PS_NEVER) {
    kc_format_fixed(patience->timeout_ps, 12, text);
    fprintf(out, ", timeout: %ss", text);
  }
  if (patience->queue_timeout_ps != KC_PS_NEVER) {
    kc_format_fixed(patience->queue_timeout_ps, 12, text);
    fprintf(out, ", queue_timeout: %ss", text);
  }
  if (patience->cancel_numerator == 0) return;
  kc_format_fixed(patience->cancel_after_ps, 12, text);
  fprintf(out, ", cancel: %llu/%llu, cancel_after: %ss",
          (unsigned long long)patience->cancel_numerator,
          (unsigned long long)patience->cancel_denominator, text);
}

static void put_class(FILE *out, const struct kc_class_spec *class)
{
  KC_ASSERT(class->priority >= 0);
  fputs("    - {name: ", out);
  put_text(out, class->name);
  if (class->has_share) {
    fprintf(out, ", share: %llu/%llu", (unsigned long long)class->share.numerator,
            (unsigned long long)class->share.denominator);
  }
  if (class->kind[0] != '\0') {
    fputs(", kind: ", out);
    put_text(out, class->kind);
  }
  fprintf(out, ", priority: %d, ttft_ms: ", (int)class->priority);
  put_number(out, class->ttft_ms);
  fputs(", tpot_ms: ", out);
  put_number(out, class->tpot_ms);
  put_patience(out, &class->patience);
  fputs("}\n", out);
}

/* Patience is written class by class, which is where it ends up; a workload without classes gets
 * one that says the same. */
static void put_clients(FILE *out, const struct kc_clients_spec *clients)
{
  KC_ASSERT(clients->class_count >= 1);
  if (clients->tenant_rule == KC_TENANTS_COUNT) {
    fprintf(out, "  tenants: %u\n", clients->tenants);
  } else {
    fprintf(out, "  tenants: %s\n", kc_tenant_rule_name(clients->tenant_rule));
  }
  const struct kc_patience *all = &clients->class[0].patience;
  const bool patient = all->timeout_ps == KC_PS_NEVER && all->queue_timeout_ps == KC_PS_NEVER &&
                       all->cancel_numerator == 0;
  if (!clients->classes_given && patient) return;
  fputs("  classes:\n", out);
  for (uint32_t i = 0; i < clients->class_count; i++) put_class(out, &clients->class[i]);
}

static void put_workload(FILE *out, const struct kc_workload_spec *workload)
{
  KC_ASSERT(workload->is_closed || workload->trace_name[0] != '\0');
  fputs("workload:\n", out);
  if (workload->is_closed) {
    const struct kc_closed_config *closed = &workload->closed;
    fprintf(out, "  closed: {concurrency: %u, input: %u, output: %u, requests: %u, mode: %s, "
            "shared_prefix: %u}\n",
            closed->concurrency, closed->input_tokens, closed->output_tokens, closed->requests,
            kc_closed_mode_name(closed->mode), workload->shared_prefix_tokens);
  } else {
    put_trace(out, workload);
  }
  put_max_tokens(out, workload);
  put_clients(out, &workload->clients);
}

/* "\n  reserved: {share: 0.5, gpu_hour_usd: 2" */
static void put_price_part(FILE *out, const char *name, const struct kc_price_part *part)
{
  fprintf(out, "  %s: {share: ", name);
  put_number(out, part->share);
  fputs(", gpu_hour_usd: ", out);
  put_number(out, part->gpu_hour_usd);
}

/* What differs from its default; nothing at all without a price. */
static void put_price(FILE *out, const struct kc_price_spec *price)
{
  const bool more = price->reserved.share > 0 || price->spot.share > 0 ||
                    price->cold_start_ps > 0 || price->has_api;
  KC_ASSERT(price->spot_lost >= 0);
  if (!price->on_demand_known && !more) return;
  fputs("price:\n", out);
  if (price->on_demand_known) {
    fputs("  gpu_hour_usd: ", out);
    put_number(out, price->on_demand_usd);
    fputc('\n', out);
  }
  if (price->reserved.share > 0) {
    put_price_part(out, "reserved", &price->reserved);
    fputs("}\n", out);
  }
  if (price->spot.share > 0) {
    put_price_part(out, "spot", &price->spot);
    fputs(", lost: ", out);
    put_number(out, price->spot_lost);
    fputs("}\n", out);
  }
  if (price->cold_start_ps > 0) put_duration(out, "cold_start", price->cold_start_ps);
  if (!price->has_api) return;
  fputs("  api: {input_usd_per_mtok: ", out);
  put_number(out, price->api_input_usd);
  fputs(", cached_usd_per_mtok: ", out);
  put_number(out, price->api_cached_usd);
  fputs(", output_usd_per_mtok: ", out);
  put_number(out, price->api_output_usd);
  fputs("}\n", out);
}

static void put_aims(FILE *out, const struct kc_scenario *scenario)
{
  fputs("slo: {ttft_p95_ms: ", out);
  put_number(out, scenario->slo_ttft_p95_ms);
  fputs(", tpot_p95_ms: ", out);
  put_number(out, scenario->slo_tpot_p95_ms);
  fputs("}\n", out);
  put_price(out, &scenario->price);
  if (scenario->energy.usd_per_kwh == 0 && scenario->energy.pue == 1) return;
  fputs("energy: {usd_per_kwh: ", out);
  put_number(out, scenario->energy.usd_per_kwh);
  fputs(", pue: ", out);
  put_number(out, scenario->energy.pue);
  fputs("}\n", out);
}

/* ", key: value" where it was said. */
static void put_bound(FILE *out, const char *key, bool said, double value)
{
  if (!said) return;
  fprintf(out, ", %s: ", key);
  put_number(out, value);
}

static void put_text_key(FILE *out, const char *key, bool said, const char *text)
{
  if (!said) return;
  fprintf(out, ", %s: ", key);
  put_text(out, text);
}

static void put_expect(FILE *out, const struct kc_scenario *scenario)
{
  KC_ASSERT(scenario->expect_count <= KC_EXPECT_MAX);
  if (scenario->expect_count > 0) fputs("expect:\n", out);
  for (uint32_t i = 0; i < scenario->expect_count; i++) {
    const struct kc_expect *e = &scenario->expect[i];
    fputs("  - {what: ", out);
    put_text(out, e->what);
    fprintf(out, ", metric: %s, value: ",
            kc_expect_metric_name(e->metric));
    put_number(out, e->value);
    put_bound(out, "within_percent", e->has_within_percent, e->within_percent);
    put_bound(out, "within", e->has_within, e->within);
    put_bound(out, "at_least", e->has_at_least, e->at_least);
    put_bound(out, "at_most", e->has_at_most, e->at_most);
    fprintf(out, ", kind: %s", kc_expect_kind_name((enum kc_expect_kind)e->kind));
    put_text_key(out, "set", e->set[0] != '\0', e->set);
    put_text_key(out, "against", e->has_against, e->against);
    put_text_key(out, "among", e->among[0] != '\0', e->among);
    put_text_key(out, "source", true, e->source);
    fputs("}\n", out);
  }
}

char *kc_scenario_resolved(const struct kc_scenario *scenario)
{
  KC_ASSERT(scenario != NULL);
  KC_ASSERT(scenario->pool_count >= 1);
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  if (out == NULL) return NULL;
  fputs("name: ", out);
  put_text(out, scenario->name);
  fputs("\nmodel: ", out);
  put_text(out, scenario->model_name);
  fprintf(out, " # sha256 %s\npools:\n", scenario->model.sha256);
  for (uint32_t i = 0; i < scenario->pool_count; i++) put_pool(out, &scenario->pool[i]);
  put_router(out, &scenario->router);
  put_workload(out, &scenario->workload);
  put_aims(out, scenario);
  fprintf(out, "seed: %llu\n", (unsigned long long)scenario->seed);
  put_expect(out, scenario);
  const bool failed = ferror(out) != 0;
  if (fclose(out) == 0 && !failed) return text;
  free(text);
  return NULL;
}
