/* Causal attention of prompt chunks in the emulator against the reference: chunks of any length at
 * any start, GQA and MLA, every format, aborted slots.
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
#include "kernels/ops/op_tolerance.h"

enum { CHUNKS_MAX = 3, CONTEXT_MAX = 200 };

struct scene {
  struct lab lab;
  struct lab_cache cache;
  struct kc_op_prefill op, oracle;
  uint32_t rows;
};

static void draw_shape(struct lab *lab, struct lab_cache_shape *shape, bool mla)
{
  static const uint32_t dims[] = {16, 48, 64, 128, 144};
  *shape = (struct lab_cache_shape){.kind = mla ? KC_PAGED_MLA : KC_PAGED_GQA,
                                    .slots = CHUNKS_MAX,
                                    .page_tokens = 16u << lab_below(lab, 4),
                                    .context_max = CONTEXT_MAX * lab_scale()};
  shape->pages = CHUNKS_MAX * (shape->context_max / shape->page_tokens + 1) + 2;
  const bool k8 = lab_below(lab, 2) != 0;
  if (mla) {
    shape->k_format = k8 ? KC_KV_FP8_G128 : KC_KV_BF16;
    shape->kv_heads = 1;
    shape->latent = k8 ? 128 : 80;
    shape->rope = 16 * lab_between(lab, 1, 2);
    return;
  }
  shape->k_format = k8 ? KC_KV_FP8_E4M3 : KC_KV_BF16;
  shape->v_format = lab_below(lab, 4) == 0 ? (k8 ? KC_KV_BF16 : KC_KV_FP8_E4M3) : shape->k_format;
  shape->kv_heads = lab_between(lab, 1, 2);
  shape->head_dim = dims[lab_below(lab, 5)];
}

static void draw_chunks(struct scene *scene, uint32_t length_max)
{
  struct lab *lab = &scene->lab;
  const uint32_t chunks = lab_between(lab, 1, CHUNKS_MAX);
  struct kc_attention_chunk *chunk = lab_take(lab, chunks * sizeof *chunk);
  uint32_t row = 0;
  for (uint32_t i = 0; i < chunks; ++i) {
    const uint32_t count = lab_below(lab, 5) == 0 ? 1 : lab_between(lab, 1, length_max);
    const uint32_t last = CONTEXT_MAX * lab_scale() - count;
    const uint32_t start = lab_below(lab, 2) == 0 ? 0 : lab_below(lab, last);
    chunk[i] = (struct kc_attention_chunk){chunks - 1 - i, row, start, count};
    lab_cache_fill(lab, &scene->cache, chunk[i].slot, start + count);
    row += count;
  }
  scene->op.chunks = chunks;
  scene->op.chunk = scene->op.chunk_host = chunk;
  scene->rows = row;
}

static void run_scene(uint64_t seed, bool mla)
{
  struct scene scene;
  struct lab *lab = &scene.lab;
  struct lab_cache_shape shape;
  struct kc_op_prefill *op = &scene.op;
  lab_begin(lab, seed);
  draw_shape(lab, &shape, mla);
  lab_cache_make(lab, &scene.cache, &shape);
  memset(op, 0, sizeof *op);
  draw_chunks(&scene, mla ? 12 : 50);
  const struct kc_kv_layer *layer = &scene.cache.layer;
  const uint32_t q_dim = kc_kv_query_dim(layer);
  for (uint32_t i = 0; i < shape.slots; ++i) scene.cache.integrity.verdict[i] = KC_VERDICT_CLEAR;
  if (lab_below(lab, 3) == 0) scene.cache.integrity.verdict[0] = 3;
  op->q_heads = shape.kv_heads * lab_between(lab, 1, 5);
  op->q_stride = (uint64_t)op->q_heads * q_dim + 8;
  op->q = lab_bf16(lab, scene.rows * op->q_stride, 1.0f);
  op->scale = 1.0f / sqrtf((float)q_dim);
  op->table = scene.cache.table;
  op->layer = *layer;
  op->verdict = scene.cache.integrity.verdict;
  const uint64_t width = (uint64_t)op->q_heads * kc_kv_value_dim(layer);
  op->out_stride = width + 8;
  scene.oracle = scene.op;
  op->out = lab_take(lab, scene.rows * op->out_stride * sizeof *op->out);
  scene.oracle.out = lab_take(lab, scene.rows * op->out_stride * sizeof *op->out);
  LAB_RUN(lab, prefill, op, &scene.oracle);
  const struct lab_matrix out = {scene.rows, width, op->out_stride, KC_TOL_ATTENTION_NMSE,
                                 LAB_ATTENTION_ABS * (double)scene.cache.v_most};
  lab_close_bf16(lab, "output", op->out, scene.oracle.out, &out);
  lab_end(lab);
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
  return cmocka_run_group_tests_name("emulated prefill attention", tests, NULL, NULL);
}
