/* Decode attention in the emulator against the reference: ragged batches over shuffled pages, every
 * format and group size, splits of any number and place, masks.
 *
 * One random scene a seed; a scene's thread order comes from the same seed. The oracle is run on
 * the same bytes of the cache, so what is measured is the kernel's error and not the format's.
 * timeout: 600
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emu_support.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/op_plan.h"
#include "kernels/ops/op_tolerance.h"

enum { ROWS_MAX = 6, CONTEXT_MAX = 260 };

struct scene {
  struct lab lab;
  struct lab_cache cache;
  struct kc_op_decode op, oracle;
};

static void draw_shape(struct lab *lab, struct lab_cache_shape *shape, bool mla)
{
  static const uint32_t page_tokens[] = {16, 32, 64, 128};
  static const uint32_t dims[] = {16, 48, 64, 96, 128, 192};
  *shape = (struct lab_cache_shape){.kind = mla ? KC_PAGED_MLA : KC_PAGED_GQA,
                                    .slots = ROWS_MAX + 2,
                                    .page_tokens = page_tokens[lab_below(lab, 4)],
                                    .context_max = CONTEXT_MAX * lab_scale()};
  shape->pages = ROWS_MAX * (shape->context_max / shape->page_tokens + 1) + 3;
  const bool k8 = lab_below(lab, 2) != 0;
  if (mla) {
    shape->k_format = k8 ? KC_KV_FP8_G128 : KC_KV_BF16;
    shape->kv_heads = 1;
    shape->latent = lab_below(lab, 4) == 0 ? 512 : k8 ? 128 * lab_between(lab, 1, 2) : 80;
    shape->rope = 16 * lab_between(lab, 1, 4);
    return;
  }
  shape->k_format = k8 ? KC_KV_FP8_E4M3 : KC_KV_BF16;
  shape->v_format = lab_below(lab, 4) == 0 ? (k8 ? KC_KV_BF16 : KC_KV_FP8_E4M3) : shape->k_format;
  shape->kv_heads = lab_between(lab, 1, 3);
  shape->head_dim = dims[lab_below(lab, 6)];
}

/* Contexts, slots in any order; the plan with a random number of blocks. */
static void draw_batch(struct scene *scene, uint32_t rows)
{
  struct lab *lab = &scene->lab;
  uint32_t *slot = lab_take(lab, rows * sizeof *slot);
  uint32_t *context = lab_take(lab, rows * sizeof *context);
  for (uint32_t row = 0; row < rows; ++row) {
    static const uint32_t special[] = {0, 1, 15, 16, 17, 64, 65};
    slot[row] = row % 2 == 0 ? row + 1 : row - 1;
    context[row] = lab_below(lab, 3) == 0 ? special[lab_below(lab, 7)]
                                          : lab_between(lab, 1, CONTEXT_MAX * lab_scale());
    lab_cache_fill(lab, &scene->cache, slot[row], context[row]);
  }
  const uint32_t blocks = lab_between(lab, 1, 12), capacity = kc_plan_capacity(rows, blocks);
  struct kc_plan_build build = {.split = lab_take(lab, capacity * sizeof(struct kc_split)),
                                .split_capacity = capacity,
                                .row_first = lab_take(lab, (rows + 1) * sizeof(uint32_t))};
  const uint32_t granule = lab_below(lab, 3) == 0 ? lab_between(lab, 3, 40) : 64;
  assert_true(kc_plan_make(&build, context, rows, granule, blocks));
  kc_plan_pad(&build, build.split_count + lab_below(lab, 2));
  if (rows > 2 && lab_below(lab, 2) == 0) slot[rows - 1] = KC_NO_SLOT; /* a padding row */
  scene->op.rows = rows;
  scene->op.slot = slot;
  scene->op.context = context;
  scene->op.plan = (struct kc_split_plan){build.split, build.split_count, build.row_first,
                                          build.partial_count};
}

static void draw_scene(struct scene *scene, uint64_t seed, bool mla)
{
  struct lab *lab = &scene->lab;
  struct lab_cache_shape shape;
  lab_begin(lab, seed);
  draw_shape(lab, &shape, mla);
  lab_cache_make(lab, &scene->cache, &shape);
  for (uint32_t i = 0; i < shape.slots; ++i) scene->cache.integrity.verdict[i] = KC_VERDICT_CLEAR;
  struct kc_op_decode *op = &scene->op;
  memset(op, 0, sizeof *op);
  const uint32_t rows = lab_between(lab, 1, mla ? 3 : ROWS_MAX);
  draw_batch(scene, rows);
  op->q_heads = shape.kv_heads * lab_between(lab, 1, lab_below(lab, 3) == 0 ? 20 : 8);
  const uint32_t q_dim = kc_kv_query_dim(&scene->cache.layer);
  op->q_stride = (uint64_t)op->q_heads * q_dim + 8;
  op->q = lab_bf16(lab, rows * op->q_stride, 1.0f);
  op->scale = 1.0f / sqrtf((float)q_dim);
  op->table = scene->cache.table;
  op->layer = scene->cache.layer;
  if (lab_below(lab, 3) == 0) scene->cache.integrity.verdict[1] = 0; /* slot 1 was aborted */
  op->verdict = lab_below(lab, 4) == 0 ? NULL : scene->cache.integrity.verdict;
  if (op->verdict == NULL) { /* no checks: an id beyond the pool reads as zeros */
    scene->cache.entry[(uint64_t)op->slot[0] * op->table.stride].page = shape.pages;
  }
}

static void take_outputs(struct scene *scene, struct kc_op_decode *op)
{
  struct lab *lab = &scene->lab;
  const uint32_t dim = kc_kv_value_dim(&op->layer);
  const uint64_t partials = (uint64_t)op->plan.partial_count * op->q_heads;
  op->out_stride = (uint64_t)op->q_heads * dim + 16;
  op->out = lab_take(lab, op->rows * op->out_stride * sizeof *op->out);
  op->lse = lab_take(lab, (uint64_t)op->rows * op->q_heads * sizeof *op->lse);
  op->partial_out = lab_take(lab, partials * dim * sizeof *op->partial_out);
  op->partial_lse = lab_take(lab, partials * sizeof *op->partial_lse);
}

static void run_scene(uint64_t seed, bool mla)
{
  struct scene scene;
  draw_scene(&scene, seed, mla);
  take_outputs(&scene, &scene.op);
  scene.oracle = scene.op;
  take_outputs(&scene, &scene.oracle);
  LAB_RUN(&scene.lab, decode, &scene.op, &scene.oracle);
  const struct kc_op_decode *op = &scene.op;
  const uint64_t width = (uint64_t)op->q_heads * kc_kv_value_dim(&op->layer);
  const double most = LAB_ATTENTION_ABS * (double)scene.cache.v_most;
  const struct lab_matrix out = {op->rows, width, op->out_stride, KC_TOL_ATTENTION_NMSE, most};
  lab_close_bf16(&scene.lab, "output", op->out, scene.oracle.out, &out);
  const struct lab_matrix lse = {op->rows, op->q_heads, op->q_heads, 1e-9, 5 * KC_TOL_LSE_ABS};
  lab_close_f32(&scene.lab, "log-sum-exp", op->lse, scene.oracle.lse, &lse);
  lab_end(&scene.lab);
}

static void test_gqa(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= lab_seeds(); ++seed) run_scene(seed, false);
}

static void test_latent(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= lab_seeds(); ++seed) run_scene(1000 + seed, true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gqa), cmocka_unit_test(test_latent)};
  return cmocka_run_group_tests_name("emulated decode attention", tests, NULL, NULL);
}
