/* Every figure that kvcap states about a deployment, by name: one table for `expect:`, `--require`,
 * sweeps, plans, intervals and the database.
 *
 *   memory bill --kc_figures_of_fit--> kc_figure_set <--kc_figures_of_run-- finished run
 *
 * A figure that does not exist (no price, no completed request) or is not known (a hit rate of
 * prompts that nobody described) is absent from a set; it is never 0 by default.
 */
#ifndef KC_SIM_SCENARIO_FIGURE_H
#define KC_SIM_SCENARIO_FIGURE_H

#include "engine/base/diag.h"

struct kc_fit;
struct kc_run;
struct kc_scenario;

/* The four latencies in milliseconds; which requests each covers: sim/metrics/metrics.h. */
#define KC_FIGURE_LATENCY(X, ID, name, what)                                       \
  X(ID##_MEAN_MS, name "_mean_ms", "ms", LOWER, true, 2, what ", mean")            \
  X(ID##_P50_MS, name "_p50_ms", "ms", LOWER, true, 2, what ", median")            \
  X(ID##_P90_MS, name "_p90_ms", "ms", LOWER, true, 2, what ", 90th percentile")   \
  X(ID##_P95_MS, name "_p95_ms", "ms", LOWER, true, 2, what ", 95th percentile")   \
  X(ID##_P99_MS, name "_p99_ms", "ms", LOWER, true, 2, what ", 99th percentile")

/* X(id, name, unit, which direction is better, whether it takes a run, decimals, meaning). New rows
 * may be added anywhere: nothing stores the number of a figure, only its name. */
#define KC_FIGURE_TABLE(X)                                                                         \
  X(FITS, "fits", "", HIGHER, false, 0, "1 when weights and a KV pool fit, else 0")                \
  X(GPUS, "gpus", "GPUs", LOWER, false, 0, "GPUs of the deployment")                               \
  X(KV_TOKENS, "kv_tokens", "tokens", HIGHER, false, 0, "tokens whose KV the pool holds")          \
  X(KV_ROOM_GIB, "kv_room_gib", "GiB", HIGHER, false, 2, "room for KV on all GPUs")                \
  X(KV_TOKEN_BYTES, "kv_token_bytes", "bytes", LOWER, false, 0, "KV of one token on one GPU")      \
  X(WEIGHTS_GPU_GIB, "weights_gpu_gib", "GiB", LOWER, false, 2, "weights as one GPU holds them")   \
  X(CHECKPOINT_GIB, "checkpoint_gib", "GiB", LOWER, false, 2, "weights before they are sharded")   \
  X(CHECKPOINT_GPU_GIB, "checkpoint_gpu_gib", "GiB", LOWER, false, 2, "checkpoint / GPUs")         \
  X(REQUESTS_FIT, "requests_fit", "requests", HIGHER, false, 0,                                    \
    "requests of a closed workload's full length that the pool holds at once")                     \
  X(OUTPUT_TOK_S, "output_tok_s", "tok/s", HIGHER, true, 1, "output tokens / makespan")            \
  X(INPUT_TOK_S, "input_tok_s", "tok/s", HIGHER, true, 1,                                          \
    "prompt tokens of completed requests / makespan")                                              \
  X(TOTAL_TOK_S, "total_tok_s", "tok/s", HIGHER, true, 1, "the two together")                      \
  X(OUTPUT_TOK_S_GPU, "output_tok_s_gpu", "tok/s", HIGHER, true, 2, "output_tok_s / GPUs")         \
  X(OUTPUT_TOK_S_USER, "output_tok_s_user", "tok/s", HIGHER, true, 2, "1 / mean TPOT")             \
  X(REQUEST_S, "request_s", "req/s", HIGHER, true, 3, "completed requests / makespan")             \
  KC_FIGURE_LATENCY(X, TTFT, "ttft", "arrival to first token")                                     \
  KC_FIGURE_LATENCY(X, TPOT, "tpot", "time per output token after the first")                      \
  KC_FIGURE_LATENCY(X, ITL, "itl", "gap between successive tokens")                                \
  KC_FIGURE_LATENCY(X, E2E, "e2e", "arrival to last token")                                        \
  X(GOODPUT_REQ_S, "goodput_req_s", "req/s", HIGHER, true, 3,                                      \
    "completed requests that kept the limits of their class / makespan; only with limits")         \
  X(SLO_SHARE, "slo_share", "share", HIGHER, true, 4, "of all requests, those that kept them")     \
  X(COMPLETED_SHARE, "completed_share", "share", HIGHER, true, 4, "of all requests")               \
  X(REJECTED_SHARE, "rejected_share", "share", LOWER, true, 4, "of all requests")                  \
  X(FAILED_SHARE, "failed_share", "share", LOWER, true, 4, "of all requests")                      \
  X(TIMED_OUT_SHARE, "timed_out_share", "share", LOWER, true, 4, "of all requests")                \
  X(CANCELLED_SHARE, "cancelled_share", "share", LOWER, true, 4, "of all requests")                \
  X(PREEMPTIONS, "preemptions", "times", LOWER, true, 0, "requests that lost their KV to others")  \
  X(MAX_RUNNING, "max_running", "requests", HIGHER, true, 0, "most requests that ran at once")    \
  X(MAX_RUNNING_REPLICA, "max_running_replica", "requests", HIGHER, true, 0,                       \
    "most requests that ran at once in one replica")                                               \
  X(MAX_WAITING, "max_waiting", "requests", LOWER, true, 0, "longest queue")                       \
  X(KV_PEAK_SHARE, "kv_peak_share", "share", LOWER, true, 4, "fullest a pool ever was")            \
  X(HIT_RATE, "hit_rate", "share", HIGHER, true, 4,                                                \
    "prompt tokens found in the cache; only where prompts are known and cached")                   \
  X(MAKESPAN_S, "makespan_s", "s", LOWER, true, 3, "first arrival to last end")                    \
  X(BUSY_SHARE, "busy_share", "share", HIGHER, true, 4, "of the makespan, time within steps")      \
  X(OOM, "oom", "", LOWER, true, 0, "1 when the KV asked for ever exceeded the pool, else 0")      \
  X(OOM_S, "oom_s", "s", HIGHER, true, 3, "when it first did; absent when it never did")           \
  X(HEADROOM, "headroom", "share", HIGHER, true, 4,                                                \
    "distance to saturation, negative beyond it; open loop only")                                  \
  X(GPU_HOURS, "gpu_hours", "h", LOWER, true, 4, "all GPUs over makespan and cold start")          \
  X(USD_TOTAL, "usd_total", "USD", LOWER, true, 4, "price of those hours; only with a price")      \
  X(USD_PER_MTOK, "usd_per_mtok", "USD", LOWER, true, 4, "usd_total / million output tokens")      \
  X(USD_PER_MTOK_INPUT, "usd_per_mtok_input", "USD", LOWER, true, 4,                               \
    "what computing prompts cost / million prompt tokens that were computed")                      \
  X(USD_PER_MTOK_CACHED, "usd_per_mtok_cached", "USD", LOWER, true, 4,                             \
    "what attending to cached prompt tokens cost / million of them")                               \
  X(USD_PER_MTOK_OUTPUT, "usd_per_mtok_output", "USD", LOWER, true, 4,                             \
    "what decoding cost / million output tokens")                                                  \
  X(API_USD, "api_usd", "USD", LOWER, true, 4, "the same tokens at price.api")                     \
  X(API_RATIO, "api_ratio", "", LOWER, true, 4, "usd_total / api_usd: below 1, own GPUs win")      \
  X(BREAK_EVEN_REQ_S, "break_even_req_s", "req/s", LOWER, true, 3,                                 \
    "requests a second for which the API bills what the GPUs cost")                                \
  X(BREAK_EVEN_SHARE, "break_even_share", "share", LOWER, true, 4, "of the most they can serve")   \
  X(KWH, "kwh", "kWh", LOWER, true, 4, "energy, from idle to the limit by busy share, times PUE")  \
  X(JOULES_PER_TOKEN, "joules_per_token", "J", LOWER, true, 3, "energy / output tokens")           \
  X(IMBALANCE, "imbalance", "", LOWER, true, 3, "busy time of the busiest replica over the mean")

enum kc_figure {
#define KC_FIGURE_ID(id, name, unit, better, run, decimals, help) KC_FIGURE_##id,
  KC_FIGURE_TABLE(KC_FIGURE_ID)
#undef KC_FIGURE_ID
  KC_FIGURES
};

enum kc_figure_better { KC_BETTER_LOWER, KC_BETTER_HIGHER };

const char *kc_figure_name(enum kc_figure figure); /* "ttft_p95_ms"; for ever */
const char *kc_figure_unit(enum kc_figure figure); /* "ms"; "" for counts of nothing */
const char *kc_figure_help(enum kc_figure figure); /* meaning, without a full stop */
enum kc_figure_better kc_figure_better(enum kc_figure figure);
bool kc_figure_needs_run(enum kc_figure figure);   /* else the memory bill says it */
int kc_figure_decimals(enum kc_figure figure);     /* for people */

/* "12.40 ms": a value of the figure for people, written to `out`, which is returned. */
enum { KC_FIGURE_TEXT_BYTES = 64 };
const char *kc_figure_text(enum kc_figure figure, double value, char out[KC_FIGURE_TEXT_BYTES]);

/* The same with as many decimals as it takes to be above, at or below `limit` as the value is. */
const char *kc_figure_text_against(enum kc_figure figure, double value, double limit,
                                   char out[KC_FIGURE_TEXT_BYTES]);
/* The same of a lower bound: never above it. */
const char *kc_figure_text_floor(enum kc_figure figure, double floor,
                                 char out[KC_FIGURE_TEXT_BYTES]);

/* Which of the five figures of the latency whose mean is `mean` it is: 0 for the mean, 50, 90, 95
 * or 99 for a percentile, -1 for none of them. */
int kc_figure_percentile(enum kc_figure figure, enum kc_figure mean);

/* Whether it is one of the 20 figures of the four latencies. */
bool kc_figure_is_latency(enum kc_figure figure);

/* The figure of that name (of `bytes` bytes); also the names under which documents of `run` state
 * some of them ("cost_usd_per_mtok"). KC_ERR_USAGE with the most similar name. */
enum kc_err kc_figure_parse(const char *name, size_t bytes, enum kc_figure *figure,
                            struct kc_diag *diag);

struct kc_figure_set {
  bool known[KC_FIGURES];
  double value[KC_FIGURES]; /* 0 where not known; finite */
};

void kc_figure_put(struct kc_figure_set *set, enum kc_figure figure, double value);

/* Why a run that was executed does not have this figure, which is absent from its set: a clause
 * such as "memory never ran out". Never NULL. */
const char *kc_figure_absence(const struct kc_run *run, enum kc_figure figure);

/* Adds what the memory bill says. `fit` is of the scenario's first pool, without a context. */
void kc_figures_of_fit(const struct kc_scenario *scenario, const struct kc_fit *fit,
                       struct kc_figure_set *set);

/* Fills the set from nothing with all figures of a run that was executed, the bill's included. */
void kc_figures_of_run(const struct kc_run *run, struct kc_figure_set *set);

#endif
