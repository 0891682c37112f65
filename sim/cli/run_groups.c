/* What `kvcap run` says of prompt caching, classes, tenants and injected faults: in the JSON
 * document and for people. */
#include <inttypes.h>
#include <stdio.h>

#include "sim/cli/cli.h"
#include "sim/cli/run_output.h"

enum { TENANTS_PRINTED = 8 };

static const char *trust_word(const struct kc_run *run)
{
  return kc_cost_level_name(kc_run_trust(run).level);
}

/* ---- JSON ---- */

static json_t *count(uint64_t value)
{
  return json_integer((json_int_t)value);
}

static json_t *cache_json(const struct kc_run *run)
{
  const struct kc_summary *s = &run->result.summary;
  const struct kc_groups *groups = &run->metrics.groups;
  json_t *object = json_object();
  double ratio;
  json_object_set_new(object, "on", json_boolean(run->prefix_cache));
  json_object_set_new(object, "contents", json_string(kc_content_source_name(run->content_source)));
  json_object_set_new(object, "outputs_reusable",
                      json_boolean(run->content_source == KC_CONTENT_SESSIONS));
  json_object_set_new(object, "prompt_tokens", count(s->admitted_tokens));
  json_object_set_new(object, "cached_tokens", count(s->cached_tokens));
  json_object_set_new(object, "hit_token_ratio",
                      kc_run_hit_rate(run, &ratio) ? json_real(ratio) : json_null());
  json_object_set_new(object, "recached_tokens", count(s->recached_tokens));
  json_object_set_new(object, "warm_requests", count(s->warm_requests));
  json_object_set_new(object, "pages_evicted", count(s->pages_evicted));
  json_object_set_new(object, "peak_idle_pages", count(s->kv_peak_cached_pages));
  const bool split = run->prefix_cache && groups->group != NULL &&
                     run->content_source != KC_CONTENT_UNKNOWN;
  json_object_set_new(object, "ttft_cold_ms",
                      split ? kc_run_statistic_json(&kc_groups_warmth(groups)[KC_COLD].ttft,
                                                    trust_word(run))
                            : json_null());
  json_object_set_new(object, "ttft_warm_ms",
                      split ? kc_run_statistic_json(&kc_groups_warmth(groups)[KC_WARM].ttft,
                                                    trust_word(run))
                            : json_null());
  return object;
}

static json_t *group_json(const struct kc_run *run, const struct kc_group *group)
{
  json_t *object = json_object();
  json_object_set_new(object, "requests_total", count(group->requests_total));
  for (int i = 0; i < KC_STATUSES; i++) {
    char key[40];
    snprintf(key, sizeof key, "requests_%s", kc_status_name((enum kc_status)i));
    json_object_set_new(object, key, count(group->requests_by_status[i]));
  }
  json_object_set_new(object, "input_tokens", count(group->input_tokens));
  json_object_set_new(object, "cached_tokens", count(group->cached_tokens));
  json_object_set_new(object, "output_tokens", count(group->output_tokens));
  json_object_set_new(object, "output_tokens_asked", count(group->output_tokens_asked));
  json_object_set_new(object, "slo_met", count(group->slo_met));
  const bool known = run->prefix_cache && run->content_source != KC_CONTENT_UNKNOWN &&
                     group->admitted_tokens > 0;
  json_object_set_new(object, "hit_token_ratio",
                      known ? json_real((double)group->cached_tokens /
                                        (double)group->admitted_tokens)
                            : json_null());
  json_object_set_new(object, "ttft_ms", kc_run_statistic_json(&group->ttft, trust_word(run)));
  json_object_set_new(object, "tpot_ms", kc_run_statistic_json(&group->tpot, trust_word(run)));
  json_object_set_new(object, "e2e_ms", kc_run_statistic_json(&group->e2e, trust_word(run)));
  return object;
}

static void add_classes(json_t *root, const struct kc_run *run)
{
  const struct kc_clients_spec *clients = &run->scenario->workload.clients;
  const struct kc_groups *groups = &run->metrics.groups;
  json_t *classes = json_array();
  for (uint32_t i = 0; clients->classes_given && i < clients->class_count; i++) {
    json_t *object = group_json(run, &kc_groups_classes(groups)[i]);
    json_object_set_new(object, "name", kc_cli_json_string(clients->class[i].name));
    json_object_set_new(object, "priority", json_integer(clients->class[i].priority));
    json_array_append_new(classes, object);
  }
  json_object_set_new(root, "classes", classes);
}

static void add_tenants(json_t *root, const struct kc_run *run)
{
  const struct kc_groups *groups = &run->metrics.groups;
  const bool many = run->clients.tenant_count > 1;
  json_t *tenants = json_array();
  for (uint32_t i = 0; many && i < run->clients.tenant_count; i++) {
    const struct kc_group *group = &kc_groups_tenants(groups)[i];
    if (group->requests_total == 0) continue;
    json_t *object = group_json(run, group);
    json_object_set_new(object, "tenant", count(i));
    json_array_append_new(tenants, object);
  }
  json_object_set_new(root, "tenants", tenants);
  json_object_set_new(root, "jain_index",
                      many ? json_real((double)kc_groups_jain_micro(groups) / 1e6) : json_null());
}

static json_t *faults_json(const struct kc_run *run)
{
  const struct kc_injector *injector = &run->result.injector;
  if (injector->config.kinds == 0) return json_null();
  json_t *object = json_object();
  for (int i = 0; i < KC_INJECT_KINDS; i++) {
    json_object_set_new(object, kc_inject_kind_name((enum kc_inject_kind)(1 << i)),
                        count(injector->injected[i]));
  }
  json_object_set_new(object, "victims", count(injector->victims));
  json_object_set_new(object, "aborted_before_harm", count(injector->aborted_soundly));
  json_object_set_new(object, "contaminated", count(injector->contaminated));
  json_object_set_new(object, "aborted_by_mistake", count(injector->mistaken));
  return object;
}

void kc_run_groups_json(json_t *root, const struct kc_run *run)
{
  double ratio, goodput;
  json_object_set_new(root, "cache_hit_token_ratio",
                      kc_run_hit_rate(run, &ratio) ? json_real(ratio) : json_null());
  json_object_set_new(root, "prefix_cache", cache_json(run));
  json_object_set_new(root, "slo_met", count(run->result.summary.slo_met));
  json_object_set_new(root, "goodput_req_s",
                      kc_run_goodput(run, &goodput) ? json_real(goodput) : json_null());
  json_object_set_new(root, "contaminated", count(run->result.summary.contaminated));
  json_object_set_new(root, "faults", faults_json(run));
  add_classes(root, run);
  add_tenants(root, run);
}

/* ---- for people ---- */

static void print_cache(const struct kc_run *run)
{
  static const char *const known_from[] = {
      "the workload does not say what prompts hold: hits unknown",
      "prompts known by their prefix ids; outputs are not asked for again",
      "prompts and outputs known from the sessions",
      "a shared prefix, the rest of each prompt its own"};
  char a[32], b[32];
  double ratio;
  const struct kc_summary *s = &run->result.summary;
  if (!run->prefix_cache) {
    printf("  cache     off; %s\n", run->content_source == KC_CONTENT_UNKNOWN
                                        ? known_from[0]
                                        : "the workload has prompts that begin alike");
    return;
  }
  if (!kc_run_hit_rate(run, &ratio)) {
    printf("  cache     on; %s\n", known_from[run->content_source]);
    return;
  }
  printf("  cache     %.1f %% of prompt tokens found (%s of %s), in %.1f %% of requests\n",
         100 * ratio, kc_run_grouped(s->cached_tokens, a), kc_run_grouped(s->admitted_tokens, b),
         s->requests_total > 0 ? 100.0 * (double)s->warm_requests / (double)s->requests_total
                               : 0.0);
  printf("            %s\n", known_from[run->content_source]);
  printf("            %s pages dropped to make room; at most %s kept that nobody used\n",
         kc_run_grouped(s->pages_evicted, a), kc_run_grouped(s->kv_peak_cached_pages, b));
}

static void print_group(const struct kc_run *run, const char *name, const struct kc_group *group)
{
  char a[32], b[32];
  const double ms = (double)KC_PS_PER_MS;
  printf("  %-18.18s %9s of %9s done", name,
         kc_run_grouped(group->requests_by_status[KC_STATUS_COMPLETED], a),
         kc_run_grouped(group->requests_total, b));
  if (group->ttft.count > 0) {
    printf("  TTFT p50 %10.2f p95 %10.2f", (double)group->ttft.p50_ps / ms,
           (double)group->ttft.p95_ps / ms);
  }
  if (group->tpot.count > 0) printf("  TPOT p95 %8.2f", (double)group->tpot.p95_ps / ms);
  printf(group->ttft.count > 0 ? "  (%s)\n" : "\n", trust_word(run));
}

static void print_classes(const struct kc_run *run)
{
  const struct kc_clients_spec *clients = &run->scenario->workload.clients;
  const struct kc_groups *groups = &run->metrics.groups;
  for (uint32_t i = 0; clients->classes_given && i < clients->class_count; i++) {
    char name[48];
    snprintf(name, sizeof name, "class %s", clients->class[i].name);
    print_group(run, name, &kc_groups_classes(groups)[i]);
  }
}

static void print_tenants(const struct kc_run *run)
{
  const struct kc_groups *groups = &run->metrics.groups;
  uint32_t printed = 0, left = 0;
  if (run->clients.tenant_count == 1) return;
  for (uint32_t i = 0; i < run->clients.tenant_count; i++) {
    const struct kc_group *group = &kc_groups_tenants(groups)[i];
    char name[32];
    if (group->requests_total == 0) continue;
    if (printed == TENANTS_PRINTED) {
      left++;
      continue;
    }
    snprintf(name, sizeof name, "tenant %u", i);
    print_group(run, name, group);
    printed++;
  }
  if (left > 0) printf("  and %u tenants more (--json lists all)\n", left);
  printf("  fairness  Jain index %.4f over the tenants' shares of the tokens they asked for\n",
         (double)kc_groups_jain_micro(groups) / 1e6);
}

static void print_faults(const struct kc_run *run)
{
  const struct kc_injector *injector = &run->result.injector;
  const char *separator = " ";
  char a[32], b[32], c[32];
  if (injector->config.kinds == 0) return;
  printf("  faults    injected:");
  for (int i = 0; i < KC_INJECT_KINDS; i++) {
    if (injector->injected[i] == 0) continue;
    printf("%s%s %s", separator, kc_run_grouped(injector->injected[i], a),
           kc_inject_kind_name((enum kc_inject_kind)(1 << i)));
    separator = ", ";
  }
  if (*separator == ' ') printf(" none: no running request shared or held the pages that it takes");
  printf("\n            %s requests hit; %s aborted before they computed anything wrong, %s "
         "contaminated\n", kc_run_grouped(injector->victims, a),
         kc_run_grouped(injector->aborted_soundly, b), kc_run_grouped(injector->contaminated, c));
}

void kc_run_groups_print(const struct kc_run *run)
{
  const struct kc_groups *groups = &run->metrics.groups;
  char a[32];
  double goodput;
  print_cache(run);
  print_faults(run);
  if (kc_run_goodput(run, &goodput)) {
    printf("  goodput   %.3f requests/s: %s completed within their limits (%s)\n", goodput,
           kc_run_grouped(run->result.summary.slo_met, a), trust_word(run));
  }
  if (groups->group == NULL) return;
  if (run->prefix_cache && run->result.summary.warm_requests > 0) {
    print_group(run, "cold prompts", &kc_groups_warmth(groups)[KC_COLD]);
    print_group(run, "warm prompts", &kc_groups_warmth(groups)[KC_WARM]);
  }
  print_classes(run);
  print_tenants(run);
}
