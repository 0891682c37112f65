/* The desk of the bench, its clock, and the order of the suites: see bench.h. */
#include "engine/exec/bench.h"

#include <string.h>
#include <time.h>

#include "engine/base/check.h"
#include "engine/exec/bench_desk.h"
#include "kernels/formats/quantise.h"
#include "kernels/ops/op_check.h"

enum { RUNS_MAX = 101, CHAIN = 10 };

static double now_s(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  KC_ASSERT(now.tv_nsec >= 0);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- the desk ---- */

void *kc_desk_take(struct kc_desk *desk, uint64_t bytes)
{
  KC_ASSERT(desk->taken_count < KC_DESK_MAX);
  void *memory = desk->failed ? NULL : desk->site->ops->allocate(desk->site->context, bytes);
  if (memory == NULL) desk->failed = true;
  else desk->taken[desk->taken_count++] = memory;
  return memory;
}

void *kc_desk_put(struct kc_desk *desk, const void *from, uint64_t bytes)
{
  void *memory = kc_desk_take(desk, bytes);
  KC_ASSERT(from != NULL);
  if (memory != NULL && kc_site_put(desk->site, memory, from, bytes) != KC_OP_OK) {
    desk->failed = true;
  }
  return memory;
}

uint16_t *kc_desk_random(struct kc_desk *desk, uint64_t elements)
{
  uint16_t *out = kc_desk_take(desk, 2 * elements);
  KC_ASSERT(elements > 0);
  if (out == NULL) return NULL;
  const struct kc_op_synthesise op = {.seed = 1, .stream = desk->taken_count,
                                      .elements = elements, .deviation = 1, .out = out};
  if (desk->site->module->synthesise(desk->site->context, &op) != KC_OP_OK) desk->failed = true;
  return out;
}

uint64_t kc_desk_weight_bytes(enum kc_weight_format format, uint64_t rows, uint64_t cols)
{
  struct kc_quantised_sizes s;
  const bool known = kc_quantised_sizes(format, rows, cols, &s);
  KC_ASSERT(known);
  return s.data_bytes + 4 * s.scale_f32_count + 2 * s.scale_bf16_count + s.scale_u8_count;
}

struct kc_weight kc_desk_weight(struct kc_desk *desk, enum kc_weight_format format, uint64_t rows,
                                uint64_t cols)
{
  struct kc_weight w = {.format = format, .rows = (uint32_t)rows, .cols = (uint32_t)cols};
  uint64_t data_bytes = rows * cols, scale_bytes = 16;
  uint16_t *bf16 = kc_desk_random(desk, rows * cols);
  KC_ASSERT(rows > 0 && cols > 0);
  w.data = bf16;
  if (format == KC_WEIGHT_BF16) return w;
  const bool int4 = kc_int4_group(format) != 0;
  if (int4) {
    w.layout = KC_LAYOUT_FRAGMENT;
    desk->site->module->fragment_bytes(&w, &data_bytes, &scale_bytes);
  }
  void *data = kc_desk_take(desk, data_bytes), *scale = kc_desk_take(desk, scale_bytes);
  if (desk->failed) return w;
  const struct kc_op_quantise_weight op = {.bf16 = bf16, .weight = w, .data = data,
                                           .scale_f32 = int4 ? NULL : scale,
                                           .scale_bf16 = int4 ? scale : NULL};
  if (desk->site->module->quantise_weight(desk->site->context, &op) != KC_OP_OK) {
    desk->failed = true;
  }
  w.data = data;
  w.scale_f32 = op.scale_f32;
  w.scale_bf16 = op.scale_bf16;
  return w;
}

void kc_desk_clear(struct kc_desk *desk)
{
  KC_ASSERT(desk->taken_count <= KC_DESK_MAX);
  (void)kc_site_wait(desk->site);
  while (desk->taken_count > 0) {
    desk->site->ops->release(desk->site->context, desk->taken[--desk->taken_count]);
  }
  desk->failed = false;
}

bool kc_desk_allows(struct kc_desk *desk)
{
  KC_ASSERT(desk->taken_count == 0);
  if (desk->config->seconds <= 0 || now_s() - desk->begun_s < desk->config->seconds) return true;
  desk->skipped++;
  return false;
}

/* ---- the clock ---- */

struct clock_events {
  void *begin, *end;
};

/* The graph's time, in microseconds; negative when the device refused. */
static double time_graph(struct kc_desk *desk, const struct clock_events *clock, void *graph,
                         bool cold)
{
  const struct kc_module *module = desk->site->module;
  void *context = desk->site->context;
  KC_ASSERT(graph != NULL);
  if (cold && module->flush_l2(context) != KC_OP_OK) return -1;
  if (module->event_record(context, clock->begin) != KC_OP_OK ||
      module->graph_launch(context, graph) != KC_OP_OK ||
      module->event_record(context, clock->end) != KC_OP_OK ||
      kc_site_wait(desk->site) != KC_OP_OK) {
    return -1;
  }
  return module->event_elapsed_us(clock->begin, clock->end);
}

static double median(double *value, uint32_t count)
{
  KC_ASSERT(count > 0);
  for (uint32_t i = 1; i < count; i++) {
    const double moved = value[i];
    uint32_t at = i;
    for (; at > 0 && value[at - 1] > moved; at--) value[at] = value[at - 1];
    value[at] = moved;
  }
  return count % 2 == 1 ? value[count / 2] : (value[count / 2 - 1] + value[count / 2]) / 2;
}

static enum kc_op_status capture(struct kc_desk *desk, uint32_t times,
                                 enum kc_op_status (*body)(void *context), void *context,
                                 void **graph)
{
  const struct kc_module *module = desk->site->module;
  enum kc_op_status status = module->capture_begin(desk->site->context);
  KC_ASSERT(times > 0);
  *graph = NULL;
  if (status != KC_OP_OK) return status;
  for (uint32_t i = 0; i < times && status == KC_OP_OK; i++) status = body(context);
  const enum kc_op_status ended = module->capture_end(desk->site->context, graph);
  return status != KC_OP_OK ? status : ended;
}

/* Both times of a row from two graphs: one of the operation, one of a chain of it. */
static enum kc_op_status time_both(struct kc_desk *desk, struct kc_bench_row *row, void *single,
                                   void *chain)
{
  const struct kc_module *module = desk->site->module;
  const uint32_t runs = desk->config->runs < RUNS_MAX ? desk->config->runs : RUNS_MAX;
  double cold[RUNS_MAX], warm[RUNS_MAX];
  struct clock_events clock = {module->event_create(desk->site->context),
                               module->event_create(desk->site->context)};
  bool good = clock.begin != NULL && clock.end != NULL;
  KC_ASSERT(runs > 0);
  for (uint32_t i = 0; i < runs && good; i++) {
    cold[i] = time_graph(desk, &clock, single, true);
    warm[i] = time_graph(desk, &clock, chain, false) / CHAIN;
    good = cold[i] >= 0 && warm[i] >= 0;
  }
  if (good) {
    row->cold_us = median(cold, runs);
    row->warm_us = median(warm, runs);
  }
  if (clock.begin != NULL) module->event_destroy(clock.begin);
  if (clock.end != NULL) module->event_destroy(clock.end);
  return good ? KC_OP_OK : KC_OP_DEVICE;
}

void kc_desk_measure(struct kc_desk *desk, struct kc_bench_row *row,
                     enum kc_op_status (*body)(void *context), void *context)
{
  const struct kc_module *module = desk->site->module;
  void *single = NULL, *chain = NULL;
  row->status = desk->failed ? KC_OP_MEMORY : body(context); /* libraries choose now */
  if (row->status == KC_OP_OK) row->status = kc_site_wait(desk->site);
  if (row->status == KC_OP_OK) row->status = capture(desk, 1, body, context, &single);
  if (row->status == KC_OP_OK) row->status = capture(desk, CHAIN, body, context, &chain);
  if (row->status == KC_OP_OK) row->status = time_both(desk, row, single, chain);
  if (single != NULL) module->graph_destroy(desk->site->context, single);
  if (chain != NULL) module->graph_destroy(desk->site->context, chain);
  KC_ASSERT(desk->config->on_row != NULL);
  desk->config->on_row(desk->config->context, row);
  kc_desk_clear(desk);
}

/* ---- the suites ---- */

enum kc_err kc_bench_run(const struct kc_bench_config *config, uint32_t *skipped,
                         struct kc_diag *diag)
{
  static const struct {
    enum kc_bench_suite suite;
    void (*run)(struct kc_desk *desk);
  } suites[] = {
      {KC_BENCH_STREAM, kc_bench_stream},   {KC_BENCH_TAGS, kc_bench_tags},
      {KC_BENCH_DECODE, kc_bench_decode},   {KC_BENCH_W4A16, kc_bench_w4a16},
      {KC_BENCH_LATENT, kc_bench_latent},   {KC_BENCH_GEMM, kc_bench_gemm},
      {KC_BENCH_MOE, kc_bench_moe},         {KC_BENCH_KV_WRITE, kc_bench_kv_write},
      {KC_BENCH_PREFILL, kc_bench_prefill},
  };
  struct kc_desk desk = {.config = config, .site = &config->site, .begun_s = now_s()};
  KC_ASSERT(!kc_site_is_host(&config->site) && config->runs > 0);
  for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++) {
    if ((config->suites & suites[i].suite) != 0) suites[i].run(&desk);
  }
  *skipped = desk.skipped;
  const enum kc_op_status status = kc_site_wait(&config->site);
  return status == KC_OP_OK ? KC_OK : kc_site_fail(&config->site, status, "the bench", diag);
}
