/* A scenario as written: what the option tables read from the tree, before any name is looked up.
 * Private to sim/scenario and its tests. */
#ifndef KC_SIM_SCENARIO_SOURCE_H
#define KC_SIM_SCENARIO_SOURCE_H

#include "engine/base/option.h"
#include "sim/scenario/scenario.h"

/* Fields of one class of requests. */
struct kc_class_source {
  char name[KC_CLASS_NAME_BYTES];
  char share[32];
  char kind[KC_TRACE_KIND_BYTES];
  uint32_t priority;
  double ttft_ms, tpot_ms;
  kc_ps timeout_ps, queue_timeout_ps, cancel_after_ps;
  char cancel[32];
  bool has_share, has_kind, has_timeout, has_queue_timeout, has_cancel, has_cancel_after;
};

/* Fields of one pool. `has_x`: the scenario says x itself. CHOICE fields are int by contract. */
struct kc_pool_source {
  char name[48];
  char gpu[KC_DIAG_PATH_BYTES];
  char profile[KC_PROFILE_NAME_BYTES];
  char policy[32];
  int role;
  uint32_t replicas, tensor, pipeline, draft_layers;
  bool has_weights;
  struct kc_precision precision;
  int kv_format, k_format, v_format;
  bool has_kv_format, has_k_format, has_v_format;
  uint32_t page_size;
  bool has_page_size;
  int caching;
  bool share_tenants;
  double moe_skew;
  int integrity;
  char fault_kinds[64];
  uint32_t fault_every_steps, fault_mask;
  bool has_fault_every;
  int rule;
  bool has_rule;
  double fraction;
  bool has_fraction;
  uint64_t kv_budget_bytes, pages, extra_bytes;
  bool has_kv_budget, has_pages;
  uint32_t max_running, max_batched_tokens;
  bool has_max_running, has_max_batched_tokens;
  uint64_t max_model_len;
  bool has_max_model_len;
  bool chunked_prefill, reserve_full_prompt;
  bool has_chunked_prefill, has_reserve_full_prompt;
  bool overlap, mixed_chunk;
  bool has_overlap, has_mixed_chunk;
  int order;
  uint32_t queue_limit, long_prefill_threshold, chunked_prefill_size, max_prefill_tokens;
  bool has_long_prefill_threshold, has_chunked_prefill_size, has_max_prefill_tokens;
  double conservativeness;
  bool has_conservativeness;
};

struct kc_scenario_source {
  char name[128];
  char model[KC_DIAG_PATH_BYTES];
  bool has_pools, has_expect;
  int router_policy;
  char router_overflow[32];
  uint32_t router_prefix_tokens;
  bool has_router_overflow, has_router_prefix;
  uint64_t seed;
  double slo_ttft_p95_ms, slo_tpot_p95_ms;
  struct kc_price_spec price;
  bool has_price, has_reserved, has_reserved_price, has_spot, has_spot_price, has_spot_lost;
  bool has_api_input, has_api_cached, has_api_output;
  struct kc_energy_spec energy;
  /* workload */
  bool is_closed, has_trace;
  char trace[KC_DIAG_PATH_BYTES];
  char format[16];
  int loop, zero_output, time_unit, tail, failed, cancelled;
  uint32_t block_tokens, missing_output_tokens; /* 0 = not said */
  kc_ps from_ps, to_ps, idle_cap_ps, spread_ps;
  uint64_t skip_rows, limit_rows;
  bool has_to, has_limit, has_idle_cap;
  char rate[32], sample[32];
  char max_tokens[32];
  uint32_t concurrency, requests, input_tokens, output_tokens, shared_prefix_tokens;
  bool has_requests;
  int mode;
  char tenants[32];
  char cancel[32];
  kc_ps timeout_ps, queue_timeout_ps, cancel_after_ps;
  bool has_timeout, has_queue_timeout, has_cancel_after, has_classes;
  /* worked out from the above */
  enum kc_max_tokens_rule max_tokens_rule;
  uint64_t max_tokens_count;
  double max_tokens_ratio;
  struct kc_fraction rate_fraction, sample_fraction, cancel_fraction, overflow_fraction;
  struct kc_clients_spec clients;
  uint32_t pool_count;
  struct kc_pool_source pool[KC_POOLS_MAX];
};

/* Reads a tree and checks all that can be checked without other files. Problems are appended. */
void kc_scenario_source_read(struct kc_scenario_source *source, const struct kc_document *document,
                             struct kc_diag_list *problems);

/* Adds a problem at a key's place: that of `key` ("workload.trace", relative to `map`) or of the
 * innermost map on the way to it that exists. */
void kc_source_problem(const struct kc_document *document, const struct kc_node *map,
                       const char *key, struct kc_diag_list *problems, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* What is said about a trace: keys that need one, the format's name, fractions, the window. */
void kc_source_check_trace(struct kc_scenario_source *source, const struct kc_document *document,
                           struct kc_diag_list *problems);

/* What is said about tenants, classes and patience, into source->clients. */
void kc_source_read_clients(struct kc_scenario_source *source, const struct kc_document *document,
                            struct kc_diag_list *problems);

/* What is said about money: parts that need a price, an API that lacks one. */
void kc_source_check_price(struct kc_scenario_source *source, const struct kc_document *document,
                           struct kc_diag_list *problems);

/* Keys of scheduler.* that only one policy reads: those that the scenario gives for another one. */
void kc_source_check_policy_keys(const struct kc_pool_source *pool,
                                 const struct kc_policy *policy,
                                 const struct kc_document *document, const struct kc_node *map,
                                 struct kc_diag_list *problems);

/* The first pool's map, or NULL. */
const struct kc_node *kc_source_pool(const struct kc_document *document);

/* Names of the tables' choices, in the order of their enums, for the resolved text. */
const char *kc_role_name(enum kc_role role);
const char *kc_integrity_name(enum kc_integrity integrity);
const char *kc_memory_rule_name(enum kc_memory_rule rule);
const char *kc_closed_mode_name(enum kc_closed_mode mode);
const char *kc_zero_output_name(enum kc_zero_output rule);
const char *kc_loop_name(enum kc_loop loop);
const char *kc_row_policy_name(enum kc_row_policy policy);
const char *kc_caching_name(enum kc_caching caching);
const char *kc_tenant_rule_name(enum kc_tenant_rule rule); /* not for KC_TENANTS_COUNT */

/* The readers' own name of a format, which lives as long as the program; NULL for "auto" (detect)
 * and for what is not a format. */
const char *kc_trace_format_literal(const char *name);

#endif
