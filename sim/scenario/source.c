/* Scenario files as option tables: which keys there are, what they may say, what they default to.
 *
 *   root table   name model pools workload.* slo.* price.* seed       -> struct kc_scenario_source
 *   pool table   pools[i]: gpu kv.* memory.* scheduler.* ...          -> struct kc_pool_source
 *   weights      pools[i].weights: {class: format}                    -> struct kc_precision
 *
 * Checks that need no other file are here, each beside the key it is about; those that need the
 * model or the GPU are in scenario.c. A choice's names stand in the order of its enum, which the
 * static assertions and the unit test keep true.
 */
#include "sim/scenario/source.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"

#define FIELD(type, field) .offset = offsetof(type, field), .size = sizeof(((type *)0)->field)
#define GIVEN(type, field) .set_offset = offsetof(type, field)
#define COUNT(table) (sizeof(table) / sizeof(table)[0])

static_assert(KC_KV_FORMATS == 5, "kv.format lists every KV format");
static_assert(KC_ROLE_SERVE == 0 && KC_ROLE_DECODE == 1, "role lists the roles in order");
static_assert(KC_CACHING_ON == 1 && KC_CACHING_OFF == 2, "kv.prefix_cache lists them in order");
static_assert(KC_ORDER_PRIORITY == 1 && KC_ORDER_LPM == 2, "scheduler.queue lists them in order");
static_assert(KC_INTEGRITY_PARANOID == 2, "kv.integrity lists the modes in order");
static_assert(KC_RULE_FIXED == 2, "memory.rule lists the rules in order");
static_assert(KC_ZERO_OUTPUT_FLOOR == 2, "workload.zero_output lists the rules in order");
static_assert(KC_CLOSED_STEADY == 1, "workload.closed.mode lists the modes in order");
static_assert(KC_LOOP_OPEN == 1 && KC_LOOP_CLOSED == 2, "workload.loop lists the loops in order");
static_assert(KC_UNIT_S == 1 && KC_UNIT_PS == 5, "workload.unit lists the units in order");
static_assert(KC_TAIL_CEIL == 1 && KC_TAIL_FLOOR == 2, "workload.tail lists the rules in order");
static_assert(KC_ROW_DROP == 1, "workload.failed and .cancelled list the policies in order");
static_assert(KC_ROUTER_LEAST_LOADED == 1 && KC_ROUTER_SESSION_AFFINITY == 2 &&
              KC_ROUTER_PREFIX_AWARE == 3, "router.policy lists the policies in order");

#define BUDGET_BYTES_MAX 1099511627776.0 /* 1 TiB: more than any GPU has */
#define KV_FORMATS "bf16|fp8-e4m3|fp8-g128|int8|fp4"

#define R(field) FIELD(struct kc_scenario_source, field)
#define HAS_R(field) GIVEN(struct kc_scenario_source, field)

static const struct kc_option root_options[] = {
  {.key = "name", .type = KC_OPTION_TEXT, R(name),
   .help = "what the scenario is about; the file's name unless given"},
  {.key = "model", .type = KC_OPTION_TEXT, R(model), .required = true,
   .help = "a model of scenarios/models, or the path of a Hugging Face config.json"},
  {.key = "pools", .type = KC_OPTION_SUBTREE, HAS_R(has_pools), .required = true,
   .values = "a list of pools of GPUs", .help = "the instances that serve the workload"},
  {.key = "router.policy", .type = KC_OPTION_CHOICE, R(router_policy),
   .values = "round-robin|least-loaded|session-affinity|prefix-aware", .fallback = "round-robin",
   .help = "which of a pool's replicas a request goes to: the next; the one with the fewest "
   "requests; the one that its session, or a prompt that begins alike, went to last; the one that "
   "was sent most of its prompt before"},
  {.key = "router.overflow", .type = KC_OPTION_TEXT, R(router_overflow),
   HAS_R(has_router_overflow), .fallback = "3/2",
   .help = "session-affinity and prefix-aware: a replica that would hold more than so many times "
   "its share of the requests passes a request on to the least loaded one, its session with it"},
  {.key = "router.prefix_tokens", .type = KC_OPTION_U32, R(router_prefix_tokens),
   HAS_R(has_router_prefix), .fallback = "2048", .min = 1, .max = KC_MAX_TOKENS_MAX,
   .unit = "tokens", .help = "session-affinity for traces with prefix ids and no sessions: prompts "
   "whose first so many tokens are the same belong together"},
  {.key = "workload.closed.concurrency", .type = KC_OPTION_U32, R(concurrency),
   .min = 1, .max = 65536, .unit = "requests", .help = "requests in flight at once"},
  {.key = "workload.closed.input", .type = KC_OPTION_U32, R(input_tokens),
   .min = 1, .max = KC_MAX_TOKENS_MAX, .unit = "tokens", .help = "length of each prompt"},
  {.key = "workload.closed.output", .type = KC_OPTION_U32, R(output_tokens),
   .min = 1, .max = KC_MAX_TOKENS_MAX, .unit = "tokens", .help = "length of each answer"},
  {.key = "workload.closed.requests", .type = KC_OPTION_U32, R(requests), HAS_R(has_requests),
   .min = 1, .max = KC_CLOSED_REQUESTS_MAX, .unit = "requests",
   .help = "requests in all; as many as the concurrency unless given"},
  {.key = "workload.closed.mode", .type = KC_OPTION_CHOICE, R(mode), .values = "wave|steady",
   .fallback = "wave", .help = "waves that start together, or each request replaced as it ends"},
  {.key = "workload.closed.shared_prefix", .type = KC_OPTION_U32, R(shared_prefix_tokens),
   .fallback = "0", .min = 0, .max = KC_MAX_TOKENS_MAX, .unit = "tokens",
   .help = "first tokens of every prompt that are the same for all, such as a system prompt"},
  {.key = "workload.tenants", .type = KC_OPTION_TEXT, R(tenants), .fallback = "one",
   .help = "who shares cached prompts with whom: one, session, kind, or a number of tenants dealt "
   "out by the seed"},
  {.key = "workload.classes", .type = KC_OPTION_SUBTREE, HAS_R(has_classes),
   .values = "a list of classes", .help = "classes of requests with priority, limits, patience"},
  {.key = "workload.timeout", .type = KC_OPTION_DURATION, R(timeout_ps), HAS_R(has_timeout),
   .help = "gives a request up that has not ended so long after its arrival"},
  {.key = "workload.queue_timeout", .type = KC_OPTION_DURATION, R(queue_timeout_ps),
   HAS_R(has_queue_timeout),
   .help = "gives a request up that has not started so long after its arrival"},
  {.key = "workload.cancel", .type = KC_OPTION_TEXT, R(cancel), .fallback = "0",
   .help = "share of clients who cancel, such as 1/50"},
  {.key = "workload.cancel_after", .type = KC_OPTION_DURATION, R(cancel_after_ps),
   HAS_R(has_cancel_after), .help = "mean time after which they do, from 0 to twice this"},
  {.key = "workload.trace", .type = KC_OPTION_TEXT, R(trace), HAS_R(has_trace),
   .help = "a trace file, beside the scenario or in traces/samples"},
  {.key = "workload.format", .type = KC_OPTION_TEXT, R(format), .fallback = "auto",
   .help = "format of the trace; auto looks at its content"},
  {.key = "workload.loop", .type = KC_OPTION_CHOICE, R(loop), .values = "auto|open|closed",
   .fallback = "auto", .help = "open: requests come at their recorded times; closed: those that "
   "wait for another come after its end; auto: closed where the trace says who waits for whom"},
  {.key = "workload.unit", .type = KC_OPTION_CHOICE, R(time_unit), .values = "format|s|ms|us|ns|ps",
   .fallback = "format", .help = "what a bare number of the trace's time column counts"},
  {.key = "workload.block_tokens", .type = KC_OPTION_U32, R(block_tokens), .min = 1,
   .max = KC_MAX_TOKENS_MAX, .unit = "tokens",
   .help = "tokens per prefix id of the trace; the format's unless given"},
  {.key = "workload.tail", .type = KC_OPTION_CHOICE, R(tail), .values = "format|ceil|floor",
   .fallback = "format", .help = "whether prefix ids cover a partial last block"},
  {.key = "workload.zero_output", .type = KC_OPTION_CHOICE, R(zero_output),
   .values = "error|drop|floor", .fallback = "error",
   .help = "what to do with trace rows that produced no token"},
  {.key = "workload.missing_output", .type = KC_OPTION_U32, R(missing_output_tokens), .min = 1,
   .max = KC_MAX_TOKENS_MAX, .unit = "tokens",
   .help = "output of trace rows that say nothing of it; they are an error unless given"},
  {.key = "workload.failed", .type = KC_OPTION_CHOICE, R(failed), .values = "keep|drop",
   .fallback = "keep", .help = "trace rows that the server or the client gave up"},
  {.key = "workload.cancelled", .type = KC_OPTION_CHOICE, R(cancelled), .values = "keep|drop",
   .fallback = "keep", .help = "trace rows that the user stopped"},
  {.key = "workload.from", .type = KC_OPTION_DURATION, R(from_ps), .fallback = "0",
   .help = "leaves out what arrives earlier in the trace"},
  {.key = "workload.to", .type = KC_OPTION_DURATION, R(to_ps), HAS_R(has_to),
   .help = "leaves out what arrives then or later"},
  {.key = "workload.skip", .type = KC_OPTION_U64, R(skip_rows), .fallback = "0", .unit = "rows",
   .help = "rows left out at the start"},
  {.key = "workload.limit", .type = KC_OPTION_U64, R(limit_rows), HAS_R(has_limit), .min = 1,
   .max = KC_CLOSED_REQUESTS_MAX, .unit = "rows", .help = "most rows replayed"},
  {.key = "workload.sample", .type = KC_OPTION_TEXT, R(sample), .fallback = "1",
   .help = "share of the trace's sessions that is replayed, such as 1/4"},
  {.key = "workload.idle_cap", .type = KC_OPTION_DURATION, R(idle_cap_ps), HAS_R(has_idle_cap),
   .help = "longest stretch in which no request is active; longer ones are cut"},
  {.key = "workload.rate", .type = KC_OPTION_TEXT, R(rate), .fallback = "1",
   .help = "how many times as fast requests come, such as 2 or 3/4"},
  {.key = "workload.spread", .type = KC_OPTION_DURATION, R(spread_ps), .fallback = "0",
   .help = "spreads requests of one instant over this time, by the seed, for coarse clocks"},
  {.key = "workload.max_tokens", .type = KC_OPTION_TEXT, R(max_tokens), .fallback = "trace",
   .help = "limit that clients ask for: trace (the true length), a number, or \"ratio R\""},
  {.key = "slo.ttft_p95_ms", .type = KC_OPTION_DOUBLE, R(slo_ttft_p95_ms), .min = 0, .max = 1e9,
   .unit = "milliseconds", .help = "95th percentile of time to first token that is aimed at"},
  {.key = "slo.tpot_p95_ms", .type = KC_OPTION_DOUBLE, R(slo_tpot_p95_ms), .min = 0, .max = 1e9,
   .unit = "milliseconds", .help = "95th percentile of time per output token that is aimed at"},
  {.key = "price.gpu_hour_usd", .type = KC_OPTION_DOUBLE, R(price.on_demand_usd),
   HAS_R(has_price), .min = 0, .max = 1e6, .unit = "US dollars",
   .help = "price of one GPU for one hour on demand; from the GPU's file unless given"},
  {.key = "price.reserved.share", .type = KC_OPTION_DOUBLE, R(price.reserved.share),
   HAS_R(has_reserved), .min = 0, .max = 1, .help = "share of the GPUs that are reserved"},
  {.key = "price.reserved.gpu_hour_usd", .type = KC_OPTION_DOUBLE, R(price.reserved.gpu_hour_usd),
   HAS_R(has_reserved_price), .min = 0, .max = 1e6, .unit = "US dollars",
   .help = "price of a reserved GPU for one hour"},
  {.key = "price.spot.share", .type = KC_OPTION_DOUBLE, R(price.spot.share),
   HAS_R(has_spot), .min = 0, .max = 1, .help = "share of the GPUs that are spot"},
  {.key = "price.spot.gpu_hour_usd", .type = KC_OPTION_DOUBLE, R(price.spot.gpu_hour_usd),
   HAS_R(has_spot_price), .min = 0, .max = 1e6, .unit = "US dollars",
   .help = "price of a spot GPU for one hour"},
  {.key = "price.spot.lost", .type = KC_OPTION_DOUBLE, R(price.spot_lost), HAS_R(has_spot_lost),
   .fallback = "0", .min = 0, .max = 0.9,
   .help = "part of a spot GPU's time that is paid for and lost to interruptions"},
  {.key = "price.cold_start", .type = KC_OPTION_DURATION, R(price.cold_start_ps), .fallback = "0",
   .help = "time for which each replica is paid before it serves"},
  {.key = "price.api.input_usd_per_mtok", .type = KC_OPTION_DOUBLE, R(price.api_input_usd),
   HAS_R(has_api_input), .min = 0, .max = 1e6, .unit = "US dollars",
   .help = "an API's price of a million prompt tokens, to compare with"},
  {.key = "price.api.cached_usd_per_mtok", .type = KC_OPTION_DOUBLE, R(price.api_cached_usd),
   HAS_R(has_api_cached), .min = 0, .max = 1e6, .unit = "US dollars",
   .help = "of those found in its cache; as other prompt tokens unless given"},
  {.key = "price.api.output_usd_per_mtok", .type = KC_OPTION_DOUBLE, R(price.api_output_usd),
   HAS_R(has_api_output), .min = 0, .max = 1e6, .unit = "US dollars",
   .help = "of a million output tokens"},
  {.key = "energy.usd_per_kwh", .type = KC_OPTION_DOUBLE, R(energy.usd_per_kwh), .fallback = "0",
   .min = 0, .max = 100, .unit = "US dollars", .help = "price of electric energy"},
  {.key = "energy.pue", .type = KC_OPTION_DOUBLE, R(energy.pue), .fallback = "1", .min = 1,
   .max = 10, .help = "power of the whole site over that of its machines"},
  {.key = "expect", .type = KC_OPTION_SUBTREE, HAS_R(has_expect),
   .values = "a list of figures", .help = "published figures that kvcap verify compares with"},
  {.key = "seed", .type = KC_OPTION_U64, R(seed), .fallback = "1", .help = "of all random streams"},
};

#define P(field) FIELD(struct kc_pool_source, field)
#define HAS_P(field) GIVEN(struct kc_pool_source, field)

static const struct kc_option pool_options[] = {
  {.key = "name", .type = KC_OPTION_TEXT, P(name), .required = true,
   .help = "what --set and results call the pool"},
  {.key = "role", .type = KC_OPTION_CHOICE, P(role), .values = "serve|decode", .fallback = "serve",
   .help = "serve: prefill and decode; decode: prompts arrive with their KV in place"},
  {.key = "gpu", .type = KC_OPTION_TEXT, P(gpu), .required = true,
   .help = "a GPU of scenarios/gpus, or the path of a GPU file"},
  {.key = "profile", .type = KC_OPTION_TEXT, P(profile), .fallback = "plain",
   .help = "a profile of efficiencies in the GPU's file"},
  {.key = "replicas", .type = KC_OPTION_U32, P(replicas), .fallback = "1", .min = 1,
   .max = KC_REPLICAS_MAX, .unit = "instances", .help = "equal instances behind one router"},
  {.key = "parallel.tensor", .type = KC_OPTION_U32, P(tensor), .fallback = "1", .min = 1,
   .max = KC_TENSOR_DEGREE_MAX, .unit = "GPUs", .help = "tensor-parallel degree"},
  {.key = "parallel.pipeline", .type = KC_OPTION_U32, P(pipeline), .fallback = "1", .min = 1,
   .max = KC_STAGES_MAX, .unit = "stages", .help = "pipeline stages"},
  {.key = "weights", .type = KC_OPTION_SUBTREE, HAS_P(has_weights),
   .help = "formats by tensor class, such as {routed_experts: int4-g32}"},
  {.key = "moe.skew", .type = KC_OPTION_DOUBLE, P(moe_skew), .fallback = "0", .min = 0, .max = 4,
   .help = "how unequally experts are chosen: exponent of a power law; 0 = balanced"},
  {.key = "kv.format", .type = KC_OPTION_CHOICE, P(kv_format), HAS_P(has_kv_format),
   .values = KV_FORMATS, .fallback = "bf16", .help = "format of keys and values"},
  {.key = "kv.k_format", .type = KC_OPTION_CHOICE, P(k_format), HAS_P(has_k_format),
   .values = KV_FORMATS, .help = "format of keys alone"},
  {.key = "kv.v_format", .type = KC_OPTION_CHOICE, P(v_format), HAS_P(has_v_format),
   .values = KV_FORMATS, .help = "format of values alone"},
  {.key = "kv.page_size", .type = KC_OPTION_U32, P(page_size), HAS_P(has_page_size), .min = 1,
   .max = KC_PAGE_SIZE_MAX, .unit = "tokens",
   .help = "tokens per page; the policy's own unless given"},
  {.key = "kv.prefix_cache", .type = KC_OPTION_CHOICE, P(caching), .values = "auto|true|false",
   .fallback = "auto", .help = "keep pages of prompts for others that begin alike; auto: where the "
   "workload says what prompts hold"},
  {.key = "kv.share_tenants", .type = KC_OPTION_BOOL, P(share_tenants), .fallback = "false",
   .help = "let tenants find each other's prompts in the cache"},
  {.key = "kv.integrity", .type = KC_OPTION_CHOICE, P(integrity), .fallback = "batched",
   .values = "off|batched|paranoid", .help = "how block tables are checked against page tags"},
  {.key = "faults.kinds", .type = KC_OPTION_TEXT, P(fault_kinds), .fallback = "none",
   .values = "none, all, or some of lost,reused,swapped,stale,range",
   .help = "damages pages of running requests on purpose, to see what the integrity check finds"},
  {.key = "faults.every_steps", .type = KC_OPTION_U32, P(fault_every_steps),
   HAS_P(has_fault_every), .fallback = "100", .min = 1, .max = 1000000000, .unit = "steps",
   .help = "one fault is tried every so many steps"},
  {.key = "memory.rule", .type = KC_OPTION_CHOICE, P(rule), HAS_P(has_rule),
   .values = "sglang|vllm|fixed",
   .help = "how the KV budget follows from the GPU; fixed if pages or kv_budget stand, else vllm"},
  {.key = "memory.fraction", .type = KC_OPTION_DOUBLE, P(fraction), HAS_P(has_fraction),
   .min = 0.01, .max = 1, .help = "mem_fraction_static or gpu_memory_utilization; the framework's "
   "default unless given"},
  {.key = "memory.kv_budget", .type = KC_OPTION_BYTES, P(kv_budget_bytes), HAS_P(has_kv_budget),
   .min = 1, .max = BUDGET_BYTES_MAX, .help = "bytes for KV per GPU, given outright"},
  {.key = "memory.pages", .type = KC_OPTION_U64, P(pages), HAS_P(has_pages), .min = 1,
   .max = KC_POOL_PAGES_MAX, .unit = "pages", .help = "size of the pool, given outright"},
  {.key = "memory.extra", .type = KC_OPTION_BYTES, P(extra_bytes), .fallback = "0", .min = 0,
   .max = BUDGET_BYTES_MAX, .help = "bytes to set aside per GPU for anything else"},
  {.key = "draft.layers", .type = KC_OPTION_U32, P(draft_layers), .fallback = "0", .min = 0,
   .max = KC_DRAFT_LAYERS_MAX, .unit = "layers",
   .help = "layers of a draft head that keep KV of their own"},
  {.key = "scheduler.policy", .type = KC_OPTION_TEXT, P(policy), .fallback = "vllm-0.19",
   .help = "batching policy, by name and version"},
  {.key = "scheduler.max_running", .type = KC_OPTION_U32, P(max_running), HAS_P(has_max_running),
   .min = 1, .max = 65536, .unit = "requests",
   .help = "most requests in one batch; the policy's default for the GPU unless given"},
  {.key = "scheduler.max_batched_tokens", .type = KC_OPTION_U32, P(max_batched_tokens),
   HAS_P(has_max_batched_tokens), .min = 1, .max = 1 << 24, .unit = "tokens",
   .help = "most tokens in one step; the policy's default for the GPU unless given"},
  {.key = "scheduler.max_model_len", .type = KC_OPTION_U64, P(max_model_len),
   HAS_P(has_max_model_len), .min = 2, .max = KC_MAX_TOKENS_MAX, .unit = "tokens",
   .help = "most tokens of prompt and answer together; the model's context unless given"},
  {.key = "scheduler.chunked_prefill", .type = KC_OPTION_BOOL, P(chunked_prefill),
   HAS_P(has_chunked_prefill), .help = "prompts may be computed in parts; the policy's default "
   "unless given"},
  {.key = "scheduler.reserve_full_prompt", .type = KC_OPTION_BOOL, P(reserve_full_prompt),
   HAS_P(has_reserve_full_prompt), .help = "vllm: admit only what fits whole; the policy's "
   "default unless given"},
  {.key = "scheduler.overlap", .type = KC_OPTION_BOOL, P(overlap), HAS_P(has_overlap),
   .help = "form a step while the one before it runs (vLLM: async scheduling; SGLang: overlap "
   "schedule); on, as in both servers, unless given"},
  {.key = "scheduler.queue", .type = KC_OPTION_CHOICE, P(order), .values = "fcfs|priority|lpm",
   .fallback = "fcfs", .help = "who is next: by arrival; by priority (vllm); by the longest match "
   "in the cache (sglang)"},
  {.key = "scheduler.queue_limit", .type = KC_OPTION_U32, P(queue_limit), .fallback = "0",
   .min = 0, .max = KC_CLOSED_REQUESTS_MAX, .unit = "requests",
   .help = "most requests that may wait; one more is rejected on arrival; 0 = no limit"},
  {.key = "scheduler.long_prefill_token_threshold", .type = KC_OPTION_U32,
   P(long_prefill_threshold), HAS_P(has_long_prefill_threshold), .min = 0, .max = 1 << 24,
   .unit = "tokens", .help = "vllm: most tokens of one prompt in one step; 0 = no limit"},
  {.key = "scheduler.chunked_prefill_size", .type = KC_OPTION_U32, P(chunked_prefill_size),
   HAS_P(has_chunked_prefill_size), .min = 1, .max = 1 << 24, .unit = "tokens",
   .help = "sglang: most tokens of one prefill step; by the GPU's memory unless given"},
  {.key = "scheduler.max_prefill_tokens", .type = KC_OPTION_U32, P(max_prefill_tokens),
   HAS_P(has_max_prefill_tokens), .min = 1, .max = 1 << 24, .unit = "tokens",
   .help = "sglang: prompt tokens after which a prefill step admits nobody more"},
  {.key = "scheduler.mixed_chunk", .type = KC_OPTION_BOOL, P(mixed_chunk), HAS_P(has_mixed_chunk),
   .help = "sglang: decodes join the prefill steps; off unless given"},
  {.key = "scheduler.schedule_conservativeness", .type = KC_OPTION_DOUBLE, P(conservativeness),
   HAS_P(has_conservativeness), .min = 0.001, .max = 1000,
   .help = "sglang: how much room is kept for outputs to come; 1 unless given"},
};

static const char *const role_names[] = {"serve", "decode"};
static const char *const caching_names[] = {"auto", "true", "false"};
static const char *const integrity_names[] = {"off", "batched", "paranoid"};
static const char *const rule_names[] = {"sglang", "vllm", "fixed"};
static const char *const mode_names[] = {"wave", "steady"};
static const char *const zero_output_names[] = {"error", "drop", "floor"};
static const char *const loop_names[] = {"auto", "open", "closed"};
static const char *const row_policy_names[] = {"keep", "drop"};

const char *kc_role_name(enum kc_role role)
{
  KC_ASSERT((unsigned)role < COUNT(role_names));
  return role_names[role];
}

const char *kc_caching_name(enum kc_caching caching)
{
  KC_ASSERT((unsigned)caching < COUNT(caching_names));
  return caching_names[caching];
}

const char *kc_integrity_name(enum kc_integrity integrity)
{
  KC_ASSERT((unsigned)integrity < COUNT(integrity_names));
  return integrity_names[integrity];
}

const char *kc_memory_rule_name(enum kc_memory_rule rule)
{
  KC_ASSERT((unsigned)rule < COUNT(rule_names));
  return rule_names[rule];
}

const char *kc_closed_mode_name(enum kc_closed_mode mode)
{
  KC_ASSERT((unsigned)mode < COUNT(mode_names));
  return mode_names[mode];
}

const char *kc_zero_output_name(enum kc_zero_output rule)
{
  KC_ASSERT((unsigned)rule < COUNT(zero_output_names));
  return zero_output_names[rule];
}

const char *kc_loop_name(enum kc_loop loop)
{
  KC_ASSERT((unsigned)loop < COUNT(loop_names));
  return loop_names[loop];
}

const char *kc_row_policy_name(enum kc_row_policy policy)
{
  KC_ASSERT((unsigned)policy < COUNT(row_policy_names));
  return row_policy_names[policy];
}

/* ---- places ---- */

void kc_source_problem(const struct kc_document *document, const struct kc_node *map,
                       const char *key, struct kc_diag_list *problems, const char *format, ...)
{
  KC_ASSERT(map != NULL);
  KC_ASSERT(key != NULL && problems != NULL);
  char sentence[KC_DIAG_TEXT_BYTES], part[64];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  const struct kc_node *place = map;
  while (*key != '\0') {
    const size_t span = strcspn(key, ".");
    snprintf(part, sizeof part, "%.*s", (int)span, key);
    const struct kc_node *child = kc_node_get(place, part);
    if (child == NULL) break;
    place = child;
    key += key[span] == '.' ? span + 1 : span;
  }
  const bool from_set = place->line == 0;
  kc_diag_list_add(problems, from_set ? KC_ERR_USAGE : KC_ERR_INPUT,
                   from_set ? "--set" : document->path, place->line, place->column, "%s", sentence);
}

const struct kc_node *kc_source_pool(const struct kc_document *document)
{
  KC_ASSERT(document != NULL);
  const struct kc_node *pools = kc_node_get(document->root, "pools");
  if (pools == NULL || pools->kind != KC_NODE_LIST || pools->child == NULL) return NULL;
  return pools->child->kind == KC_NODE_MAP ? pools->child : NULL;
}

/* ---- workload ---- */

/* "trace", "4096", "ratio 1.5". */
static void read_max_tokens(struct kc_scenario_source *source, const struct kc_document *document,
                            struct kc_diag_list *problems)
{
  KC_ASSERT(source->max_tokens[0] != '\0');
  const char *text = source->max_tokens;
  source->max_tokens_rule = KC_MAX_TOKENS_TRACE;
  if (strcmp(text, "trace") == 0) return;
  if (strncmp(text, "ratio ", 6) == 0) {
    double ratio;
    const char *number = text + 6;
    if (kc_parse_double(number, strlen(number), &ratio) && ratio > 0 && ratio <= 1e6) {
      source->max_tokens_rule = KC_MAX_TOKENS_RATIO;
      source->max_tokens_ratio = ratio;
      return;
    }
  }
  uint64_t count;
  if (kc_parse_u64(text, strlen(text), &count) && count >= 1 && count <= KC_MAX_TOKENS_MAX) {
    source->max_tokens_rule = KC_MAX_TOKENS_COUNT;
    source->max_tokens_count = count;
    return;
  }
  kc_source_problem(document, document->root, "workload.max_tokens", problems,
                    "workload.max_tokens: expected trace, a whole number of tokens from 1 to %d, "
                    "or \"ratio R\" with R above 0, got \"%s\"", (int)KC_MAX_TOKENS_MAX, text);
}

static void check_closed(struct kc_scenario_source *source, const struct kc_document *document,
                         const struct kc_node *closed, struct kc_diag_list *problems)
{
  KC_ASSERT(source->is_closed);
  KC_ASSERT(closed != NULL);
  static const char *const needed[] = {"concurrency", "input", "output"};
  for (size_t i = 0; i < COUNT(needed); i++) {
    if (closed->kind != KC_NODE_MAP || kc_node_get(closed, needed[i]) != NULL) continue;
    kc_source_problem(document, document->root, "workload.closed", problems,
                      "workload.closed.%s is missing; a closed workload needs concurrency, input "
                      "and output", needed[i]);
  }
  if (!source->has_requests) source->requests = source->concurrency;
  if (source->shared_prefix_tokens > source->input_tokens) {
    kc_source_problem(document, document->root, "workload.closed.shared_prefix", problems,
                      "workload.closed.shared_prefix is %u tokens, more than the %u of the prompt",
                      source->shared_prefix_tokens, source->input_tokens);
  }
  if (source->requests < source->concurrency) {
    kc_source_problem(document, document->root, "workload.closed.requests", problems,
                      "workload.closed.requests is %u, fewer than the %u of "
                      "workload.closed.concurrency; raise it or leave it out", source->requests,
                      source->concurrency);
  }
}

static void check_workload(struct kc_scenario_source *source, const struct kc_document *document,
                           struct kc_diag_list *problems)
{
  const struct kc_node *workload = kc_node_get(document->root, "workload");
  const struct kc_node *closed = kc_node_get(workload, "closed");
  source->is_closed = closed != NULL;
  if (workload == NULL) {
    kc_source_problem(document, document->root, "workload", problems,
                      "workload is missing; expected workload: {trace: FILE} or "
                      "{closed: {concurrency: N, input: TOKENS, output: TOKENS}}");
    return;
  }
  if (workload->kind != KC_NODE_MAP) return; /* the table has said so */
  if (closed != NULL && kc_node_get(workload, "trace") != NULL) {
    kc_source_problem(document, document->root, "workload", problems,
                      "workload has both closed and trace; keep one (--set workload.closed=null "
                      "takes the first away)");
  } else if (closed == NULL && kc_node_get(workload, "trace") == NULL) {
    kc_source_problem(document, document->root, "workload", problems,
                      "workload has neither closed nor trace; one of them says what arrives");
  }
  if (closed != NULL) check_closed(source, document, closed, problems);
  kc_source_check_trace(source, document, problems);
  read_max_tokens(source, document, problems);
  kc_source_read_clients(source, document, problems);
}

/* ---- router ---- */

static void check_router(struct kc_scenario_source *source, const struct kc_document *document,
                         struct kc_diag_list *problems)
{
  const bool affine = source->router_policy == KC_ROUTER_SESSION_AFFINITY;
  KC_ASSERT(source->router_overflow[0] != '\0');
  if (!affine && source->has_router_prefix) {
    kc_source_problem(document, document->root, "router.prefix_tokens", problems,
                      "router.prefix_tokens goes with router.policy session-affinity, and only "
                      "with it");
  }
  if (source->router_policy < KC_ROUTER_SESSION_AFFINITY && source->has_router_overflow) {
    kc_source_problem(document, document->root, "router.overflow", problems,
                      "router.overflow goes with router.policy session-affinity or prefix-aware, "
                      "and only with them");
  }
  if (affine && source->is_closed) {
    kc_source_problem(document, document->root, "router.policy", problems,
                      "router.policy session-affinity needs a trace that says which requests "
                      "belong together; a closed workload does not");
  }
  if (kc_fraction_parse(source->router_overflow, &source->overflow_fraction) &&
      source->overflow_fraction.numerator >= source->overflow_fraction.denominator) {
    return;
  }
  kc_source_problem(document, document->root, "router.overflow", problems,
                    "router.overflow: expected a fraction such as 3/2 or 1.25, 1 or more, got "
                    "\"%s\"", source->router_overflow);
}

/* ---- pools ---- */

static void read_weights(struct kc_pool_source *pool, const struct kc_document *document,
                         const struct kc_node *map, struct kc_diag_list *problems)
{
  KC_ASSERT(map->kind == KC_NODE_MAP);
  const struct kc_node *weights = kc_node_get(map, "weights");
  if (weights == NULL) return;
  if (weights->kind != KC_NODE_MAP) {
    kc_source_problem(document, map, "weights", problems,
                      "weights: expected a map of tensor classes to formats, such as "
                      "{routed_experts: int4-g32}");
    return;
  }
  /* `default` goes first, so that named classes win wherever it stands. */
  for (int pass = 0; pass < 2; pass++) {
    for (const struct kc_node *node = weights->child; node != NULL; node = node->next) {
      if ((strcmp(node->key, "default") == 0) != (pass == 0)) continue;
      char pair[128];
      struct kc_diag why;
      if (node->kind != KC_NODE_SCALAR || strpbrk(node->key, "=,") != NULL ||
          strpbrk(node->text, "=,") != NULL) {
        kc_source_problem(document, weights, node->key, problems,
                          "weights.%.64s: expected the name of a format", node->key);
        continue;
      }
      snprintf(pair, sizeof pair, "%.60s=%.60s", node->key, node->text);
      if (kc_precision_parse(&pool->precision, pair, &why) != KC_OK) {
        kc_source_problem(document, weights, node->key, problems, "weights: %s", why.text);
      }
    }
  }
}

static void check_kv(struct kc_pool_source *pool, const struct kc_document *document,
                     const struct kc_node *map, struct kc_diag_list *problems)
{
  KC_ASSERT((unsigned)pool->kv_format < KC_KV_FORMATS);
  if (pool->caching == KC_CACHING_ON && pool->role == KC_ROLE_DECODE) {
    kc_source_problem(document, map, "kv.prefix_cache", problems,
                      "kv.prefix_cache has no meaning in role decode, where prompts arrive with "
                      "their KV; leave it out");
  }
  if (pool->has_kv_format && pool->has_k_format && pool->has_v_format) {
    kc_source_problem(document, map, "kv.format", problems,
                      "kv.format has no effect beside k_format and v_format; take it away");
  }
  if (!pool->has_k_format) pool->k_format = pool->kv_format;
  if (!pool->has_v_format) pool->v_format = pool->has_kv_format ? pool->kv_format : pool->k_format;
  pool->precision.k_format = (enum kc_kv_format)pool->k_format;
  pool->precision.v_format = (enum kc_kv_format)pool->v_format;
}

/* "none", "all", "lost,stale". */
static void read_faults(struct kc_pool_source *pool, const struct kc_document *document,
                        const struct kc_node *map, struct kc_diag_list *problems)
{
  const char *text = pool->fault_kinds;
  pool->fault_mask = strcmp(text, "all") == 0 ? KC_INJECT_ALL : 0;
  KC_ASSERT(text[0] != '\0');
  if (pool->fault_mask != 0) return;
  if (strcmp(text, "none") == 0) {
    if (pool->has_fault_every) {
      kc_source_problem(document, map, "faults.every_steps", problems,
                        "faults.every_steps has no effect without faults.kinds");
    }
    return;
  }
  while (*text != '\0') {
    const size_t span = strcspn(text, ",");
    bool known = false;
    for (int bit = 0; bit < KC_INJECT_KINDS && !known; bit++) {
      const char *name = kc_inject_kind_name((enum kc_inject_kind)(1 << bit));
      known = strlen(name) == span && strncmp(name, text, span) == 0;
      if (known) pool->fault_mask |= UINT32_C(1) << bit;
    }
    if (!known) {
      kc_source_problem(document, map, "faults.kinds", problems,
                        "faults.kinds: \"%.*s\" is not a kind of fault; expected none, all, or "
                        "some of lost,reused,swapped,stale,range", (int)span, text);
      return;
    }
    text += text[span] == ',' ? span + 1 : span;
  }
}

void kc_source_check_policy_keys(const struct kc_pool_source *pool,
                                 const struct kc_policy *policy,
                                 const struct kc_document *document, const struct kc_node *map,
                                 struct kc_diag_list *problems)
{
  const bool vllm = policy->server == KC_SERVER_VLLM;
  const struct {
    const char *key;
    bool given, applies;
  } rows[] = {
    {"scheduler.max_batched_tokens", pool->has_max_batched_tokens, vllm},
    {"scheduler.reserve_full_prompt", pool->has_reserve_full_prompt, vllm},
    {"scheduler.long_prefill_token_threshold", pool->has_long_prefill_threshold, vllm},
    {"scheduler.chunked_prefill_size", pool->has_chunked_prefill_size, !vllm},
    {"scheduler.max_prefill_tokens", pool->has_max_prefill_tokens, !vllm},
    {"scheduler.mixed_chunk", pool->has_mixed_chunk, !vllm},
    {"scheduler.schedule_conservativeness", pool->has_conservativeness, !vllm},
    {"scheduler.queue", pool->order == KC_ORDER_PRIORITY, vllm},
    {"scheduler.queue", pool->order == KC_ORDER_LPM, !vllm}};
  KC_ASSERT(policy->name != NULL);
  for (size_t i = 0; i < COUNT(rows); i++) {
    if (!rows[i].given || rows[i].applies) continue;
    const bool queue = strcmp(rows[i].key, "scheduler.queue") == 0;
    kc_source_problem(document, map, rows[i].key, problems,
                      "%s as given does not apply to policy %s%s; take it away", rows[i].key,
                      policy->name,
                      queue ? " (vllm-0.19 has fcfs and priority, sglang-0.5 fcfs and lpm)" : "");
  }
}

static void check_memory(struct kc_pool_source *pool, const struct kc_document *document,
                         const struct kc_node *map, struct kc_diag_list *problems)
{
  KC_ASSERT(pool->fraction >= 0);
  const bool outright = pool->has_pages || pool->has_kv_budget;
  if (!pool->has_rule) pool->rule = outright ? KC_RULE_FIXED : KC_RULE_VLLM;
  const bool fixed = pool->rule == KC_RULE_FIXED;
  if (outright && !fixed) {
    const char *key = pool->has_pages ? "memory.pages" : "memory.kv_budget";
    kc_source_problem(document, map, key, problems,
                      "%s sets the pool outright, which goes with rule: fixed and not with "
                      "rule: %s; take one away", key,
                      kc_memory_rule_name((enum kc_memory_rule)pool->rule));
  }
  if (fixed && !outright) {
    kc_source_problem(document, map, "memory.rule", problems,
                      "memory.rule fixed needs memory.pages or memory.kv_budget");
  }
  if (pool->has_pages && pool->has_kv_budget) {
    kc_source_problem(document, map, "memory.kv_budget", problems,
                      "memory.kv_budget and memory.pages both set the pool; keep one");
  }
  if (fixed && outright && pool->has_fraction) {
    kc_source_problem(document, map, "memory.fraction", problems,
                      "memory.fraction does not apply when the pool is set outright; take it away");
  }
}

static void check_pool(struct kc_pool_source *pool, const struct kc_document *document,
                       const struct kc_node *map, struct kc_diag_list *problems)
{
  if (strpbrk(pool->name, ".=") != NULL) {
    kc_source_problem(document, map, "name", problems,
                      "pool name \"%s\" holds a dot or an equals sign, which --set could not name",
                      pool->name);
  }
  read_weights(pool, document, map, problems);
  check_kv(pool, document, map, problems);
  read_faults(pool, document, map, problems);
  check_memory(pool, document, map, problems);
}

static void read_pool(struct kc_pool_source *pool, const struct kc_document *document,
                      const struct kc_node *map, uint32_t index, struct kc_diag_list *problems)
{
  KC_ASSERT(index < KC_POOLS_MAX);
  if (map->kind != KC_NODE_MAP) {
    kc_diag_list_add(problems, KC_ERR_INPUT, document->path, map->line, map->column,
                     "pools[%u]: expected a map with name, gpu and so on", index);
    return;
  }
  const struct kc_node *name = kc_node_get(map, "name");
  char prefix[64];
  if (name != NULL && name->kind == KC_NODE_SCALAR && name->text[0] != '\0') {
    snprintf(prefix, sizeof prefix, "pools.%.40s.", name->text);
  } else {
    snprintf(prefix, sizeof prefix, "pools.%u.", index);
  }
  kc_options_default(pool_options, COUNT(pool_options), pool);
  kc_precision_default(&pool->precision);
  kc_options_read_map(pool_options, COUNT(pool_options), pool, map, document->path, prefix,
                      problems);
  check_pool(pool, document, map, problems);
}

static void read_pools(struct kc_scenario_source *source, const struct kc_document *document,
                       struct kc_diag_list *problems)
{
  const struct kc_node *pools = kc_node_get(document->root, "pools");
  if (pools == NULL) return; /* the table has said so */
  uint32_t count = 0;
  for (const struct kc_node *map = pools->child; map != NULL; map = map->next) count++;
  if (pools->kind != KC_NODE_LIST || count == 0) {
    kc_source_problem(document, document->root, "pools", problems,
                      "pools: expected a list of pools, each starting with \"- name: ...\"");
    return;
  }
  if (count > KC_POOLS_MAX) {
    kc_source_problem(document, document->root, "pools", problems,
                      "pools lists %u pools; one pool is simulated for now: keep one", count);
  }
  source->pool_count = count < KC_POOLS_MAX ? count : KC_POOLS_MAX;
  const struct kc_node *map = pools->child;
  for (uint32_t i = 0; i < source->pool_count; i++, map = map->next) {
    read_pool(&source->pool[i], document, map, i, problems);
  }
}

void kc_scenario_source_read(struct kc_scenario_source *source, const struct kc_document *document,
                             struct kc_diag_list *problems)
{
  KC_ASSERT(source != NULL && problems != NULL);
  KC_ASSERT(document != NULL && document->root != NULL);
  memset(source, 0, sizeof *source);
  kc_options_default(root_options, COUNT(root_options), source);
  kc_options_read_map(root_options, COUNT(root_options), source, document->root, document->path, "",
                      problems);
  check_workload(source, document, problems);
  check_router(source, document, problems);
  read_pools(source, document, problems);
  kc_source_check_price(source, document, problems);
}
