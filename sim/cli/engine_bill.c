/* See engine_bill.h. */
#include "sim/cli/engine_bill.h"

#include <stdio.h>
#include <unistd.h>

#include "engine/base/check.h"

/* What a thread of the reference operations does in a second: 2 to 4e9 on a machine of 2023, by
 * bench_forward. Only for the sentence; the limit is in operations. */
#define OPERATIONS_PER_S 3e9

/* ---- counting ---- */

/* Tokens that pass through the model, and pairs of a token and one that it attends to. */
struct work {
  double tokens, pairs;
};

static void add_request(struct work *work, double tokens, double count)
{
  KC_ASSERT(tokens >= 0);
  work->tokens += count * tokens;
  work->pairs += count * tokens * (tokens + 1) / 2;
}

static struct work work_of(const struct kc_run *run)
{
  const struct kc_request *rows = run->sessions ? run->rows : run->requests;
  const uint64_t longest = run->replay.instance.sched.max_model_len;
  struct work work = {0};
  if (run->scenario->workload.is_closed) {
    const struct kc_closed_config *closed = &run->scenario->workload.closed;
    add_request(&work, (double)closed->input_tokens + closed->output_tokens, run->request_count);
    return work;
  }
  for (uint32_t i = 0; i < run->request_count; i++) {
    if (rows[i].input_tokens >= longest) continue; /* refused */
    const uint32_t output = kc_request_output(&rows[i], longest);
    add_request(&work, (double)rows[i].input_tokens + output, 1);
  }
  return work;
}

/* Operations of one pair, all layers and heads: a product with K, one with V. */
static double pair_operations(const struct kc_model *model)
{
  double sum = 0;
  for (uint32_t i = 0; i < model->kv_group_count; i++) {
    const struct kc_kv_group *g = &model->kv_group[i];
    const bool latent = g->kind == KC_KV_MLA || g->kind == KC_KV_DSA;
    const double value = latent ? g->k_width : g->v_width;
    if (g->kind == KC_KV_LINEAR) continue;
    sum += 2.0 * g->layers * g->query_heads * (g->k_width + g->rope_width + value);
  }
  KC_ASSERT(sum >= 0);
  return sum;
}

struct kc_engine_bill kc_engine_bill_of(const struct kc_run *run, const struct kc_model *model,
                                        const struct kc_precision *precision, uint32_t tensor)
{
  const struct work work = work_of(run);
  const double token = 2.0 * (double)kc_model_active_parameters(model);
  const uint64_t page_tokens = run->replay.instance.sched.page_size;
  KC_ASSERT(tensor > 0);
  return (struct kc_engine_bill){
      .operations = (work.tokens * token + work.pairs * pair_operations(model)) / tensor,
      .weight_bytes = kc_model_rank_weight_bytes(model, precision, tensor, 0, 1),
      .pool_bytes = run->pages * page_tokens *
                    kc_model_kv_token_bytes(model, precision->k_format, precision->v_format,
                                            tensor)};
}

/* ---- saying no ---- */

/* "40 minutes", "9 hours", "12 days". */
static void time_text(double seconds, char out[32])
{
  KC_ASSERT(seconds >= 0);
  if (seconds < 2 * 3600) snprintf(out, 32, "%.0f minutes", seconds / 60);
  else if (seconds < 2 * 86400) snprintf(out, 32, "%.0f hours", seconds / 3600);
  else snprintf(out, 32, "%.0f days", seconds / 86400);
}

static double gib(double bytes)
{
  return bytes / (double)(UINT64_C(1) << 30);
}

enum kc_err kc_engine_bill_check(const struct kc_engine_bill *bill, double limit_tflop,
                                 uint32_t threads, struct kc_diag *diag)
{
  const double tflop = 1e-12 * bill->operations;
  const double bytes = (double)bill->weight_bytes + (double)bill->pool_bytes;
  const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  char text[32];
  KC_ASSERT(threads > 0);
  if (limit_tflop > 0 && tflop > limit_tflop) {
    time_text(bill->operations / (OPERATIONS_PER_S * threads), text);
    return kc_fail(diag, KC_ERR_LIMIT,
                   "the run is %.0f TFLOP of arithmetic, about %s of this CPU with %u threads; the "
                   "limit is %g: compute fewer requests (--set workload.limit=N), take --device "
                   "cuda or --shapes tiny, or --limit-tflop 0 to compute it all the same", tflop,
                   text, threads, limit_tflop);
  }
  if (memory <= 0 || bytes <= memory) return KC_OK;
  return kc_fail(diag, KC_ERR_MEMORY,
                 "the run needs %.1f GiB of weights and %.1f of KV pool, and this machine has "
                 "%.1f GiB: take a smaller pool (--set pools.NAME.memory.pages=N), --device cuda, "
                 "or --shapes tiny", gib((double)bill->weight_bytes),
                 gib((double)bill->pool_bytes), gib(memory));
}
