/* timeout: 300
 * Paged attention against attention without pages: every KV format, ragged batches, shuffled pages,
 * any split plan, masks, poisoned slots. Then relations that need no oracle: permuting pages and
 * cutting elsewhere change nothing, one token returns its V, absorbed MLA equals plain multi-head
 * attention on expanded keys and values.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ops/op_plan.h"
#include "kernels/ops/op_tolerance.h"
#include "kernels/ref/ref.h"
#include "op_random.h"
#include "paged_bed.h"

enum { SLOTS = 4, CONTEXT = 110 };

static const struct paged_shape shapes[] = {
    {KC_PAGED_GQA, KC_KV_BF16, KC_KV_BF16, 16, 2, 4, 64, 0, 0, SLOTS, CONTEXT},
    {KC_PAGED_GQA, KC_KV_FP8_E4M3, KC_KV_FP8_E4M3, 64, 2, 4, 128, 0, 0, SLOTS, CONTEXT},
    {KC_PAGED_GQA, KC_KV_FP8_E4M3, KC_KV_BF16, 16, 3, 1, 32, 0, 0, SLOTS, CONTEXT},
    {KC_PAGED_GQA, KC_KV_BF16, KC_KV_FP8_E4M3, 1, 1, 11, 16, 0, 0, SLOTS, CONTEXT},
    {KC_PAGED_MLA, KC_KV_BF16, KC_KV_BF16, 64, 1, 16, 0, 512, 64, SLOTS, 70},
    {KC_PAGED_MLA, KC_KV_FP8_G128, KC_KV_BF16, 64, 1, 9, 0, 512, 64, SLOTS, 70},
    {KC_PAGED_MLA, KC_KV_FP8_G128, KC_KV_BF16, 16, 1, 2, 0, 128, 16, SLOTS, CONTEXT},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* A decode of all slots of a bed, with everything it needs. */
struct decode_bed {
  struct kc_op_decode op;
  struct kc_plan_build plan;
  uint16_t *q;
  uint32_t slot[SLOTS];
  size_t out_count;
};

static void decode_make(struct decode_bed *d, struct paged_bed *bed, uint32_t granule,
                        uint32_t blocks, uint64_t seed)
{
  memset(d, 0, sizeof *d);
  const uint32_t rows = bed->shape.slots;
  d->q = take_bf16((size_t)rows * bed->q_heads * bed->q_dim, &seed, 1.0);
  d->plan.split_capacity = 4096;
  d->plan.split = take(d->plan.split_capacity * sizeof *d->plan.split);
  d->plan.row_first = take((rows + 1) * sizeof *d->plan.row_first);
  assert_true(kc_plan_make(&d->plan, bed->context, rows, granule, blocks));
  kc_plan_pad(&d->plan, d->plan.split_count + 3);
  for (uint32_t r = 0; r < rows; ++r) d->slot[r] = r;
  d->out_count = (size_t)rows * bed->q_heads * bed->v_dim;
  const size_t partials = (size_t)(d->plan.partial_count + 1) * bed->q_heads;
  d->op = (struct kc_op_decode){
      .rows = rows,
      .q_heads = bed->q_heads,
      .q = d->q,
      .q_stride = (uint64_t)bed->q_heads * bed->q_dim,
      .slot = d->slot,
      .context = bed->context,
      .scale = (float)(1.0 / sqrt(bed->q_dim)),
      .table = bed->table,
      .layer = bed->layer,
      .verdict = bed->verdict,
      .plan = {d->plan.split, d->plan.split_count, d->plan.row_first, d->plan.partial_count},
      .partial_out = take(partials * bed->v_dim * sizeof(float)),
      .partial_lse = take(partials * sizeof(float)),
      .out = take(d->out_count * sizeof(uint16_t)),
      .out_stride = (uint64_t)bed->q_heads * bed->v_dim,
      .lse = take((size_t)rows * bed->q_heads * sizeof(float)),
  };
  memset(d->op.out, 0xFF, d->out_count * sizeof(uint16_t));
}

static void decode_free(struct decode_bed *d)
{
  free(d->q), free(d->plan.split), free(d->plan.row_first), free(d->op.partial_out);
  free(d->op.partial_lse), free(d->op.out), free(d->op.lse);
}

static void expect_decode_is_naive(const struct decode_bed *d, const struct paged_bed *bed)
{
  double *want = take(d->out_count * sizeof *want);
  for (uint32_t i = 0; i < d->op.rows * bed->q_heads; ++i) {
    const uint32_t row = i / bed->q_heads;
    double lse;
    paged_bed_naive(bed, d->slot[row], bed->context[row], i % bed->q_heads,
                    d->q + (size_t)i * bed->q_dim, (double)d->op.scale,
                    want + (size_t)i * bed->v_dim, &lse);
    const double got = (double)d->op.lse[i];
    assert_true(fabs(got - lse) <= KC_TOL_LSE_ABS * (1 + fabs(lse)));
  }
  const double error = nmse_bf16(d->op.out, want, d->out_count);
  if (!(error < 4e-6)) fail_msg("nmse %g: more than bf16's own rounding", error);
  for (size_t i = 0; i < d->out_count; ++i) {
    assert_true(fabs(value_of(d->op.out[i]) - want[i]) <= KC_TOL_ATTENTION_ABS * 5);
  }
  free(want);
}

static void decode_is_naive_attention(void **state)
{
  (void)state;
  for (int s = 0; s < SHAPES; ++s) {
    const uint64_t seeds = shapes[s].latent == 512 ? 1 : 2;
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      struct paged_bed bed;
      struct decode_bed d;
      print_message("shape %d seed %d\n", s, (int)seed);
      paged_bed_make(&bed, &shapes[s], seed * 100 + (uint64_t)s);
      decode_make(&d, &bed, 16, 12, seed);
      assert_int_equal(kc_ref_ops()->decode(NULL, &d.op), KC_OP_OK);
      expect_decode_is_naive(&d, &bed);
      decode_free(&d);
      paged_bed_free(&bed);
    }
  }
}

/* Any cut gives the same output up to the rounding of FP32 partials; one cut, the same bits. */
static void any_split_is_no_split(void **state)
{
  (void)state;
  for (int s = 0; s < SHAPES; s += 2) {
    struct paged_bed bed;
    struct decode_bed whole;
    paged_bed_make(&bed, &shapes[s], 5);
    decode_make(&whole, &bed, 1024, 1, 3);
    assert_int_equal(whole.op.plan.partial_count, 0);
    assert_int_equal(kc_ref_ops()->decode(NULL, &whole.op), KC_OP_OK);
    double *want = take(whole.out_count * sizeof *want);
    for (size_t i = 0; i < whole.out_count; ++i) want[i] = value_of(whole.op.out[i]);
    static const uint32_t granules[] = {1, 16, 33};
    for (int g = 0; g < 3; ++g) {
      struct decode_bed cut, again;
      decode_make(&cut, &bed, granules[g], 24, 3);
      decode_make(&again, &bed, granules[g], 24, 3);
      assert_true(cut.op.plan.partial_count >= 2);
      assert_int_equal(kc_ref_ops()->decode(NULL, &cut.op), KC_OP_OK);
      assert_int_equal(kc_ref_ops()->decode(NULL, &again.op), KC_OP_OK);
      assert_memory_equal(cut.op.out, again.op.out, cut.out_count * 2);
      assert_true(nmse_bf16(cut.op.out, want, cut.out_count) < 1e-6);
      decode_free(&cut);
      decode_free(&again);
    }
    free(want);
    decode_free(&whole);
    paged_bed_free(&bed);
  }
}

/* The same tokens in other pages: the same bits. */
static void pages_may_lie_anywhere(void **state)
{
  (void)state;
  for (int s = 0; s < SHAPES; ++s) {
    struct paged_bed bed;
    struct decode_bed before, after;
    paged_bed_make(&bed, &shapes[s], 8);
    decode_make(&before, &bed, 32, 8, 2);
    assert_int_equal(kc_ref_ops()->decode(NULL, &before.op), KC_OP_OK);
    memset(bed.layer.k, 0xFF, bed.layer.pages * bed.layer.k_page_bytes);
    memset(bed.layer.v, 0xFF, bed.layer.pages * bed.layer.v_page_bytes);
    for (uint32_t i = 0; i < SLOTS * bed.row_entries; ++i) { /* mirror the pool */
      struct kc_page_ref *ref = &bed.entry[i];
      if (ref->page >= bed.layer.pages) continue;
      ref->page = bed.layer.pages - 1 - ref->page;
      ref->tag = bed.tag[ref->page];
    }
    for (uint32_t slot = 0; slot < SLOTS; ++slot) {
      assert_int_equal(paged_bed_write(&bed, slot, 0, bed.context[slot]), KC_OP_OK);
    }
    decode_make(&after, &bed, 32, 8, 2);
    assert_int_equal(kc_ref_ops()->decode(NULL, &after.op), KC_OP_OK);
    assert_memory_equal(before.op.out, after.op.out, before.out_count * 2);
    decode_free(&before);
    decode_free(&after);
    paged_bed_free(&bed);
  }
}

static void one_token_returns_its_value(void **state)
{
  (void)state;
  struct paged_bed bed;
  struct decode_bed d;
  paged_bed_make(&bed, &shapes[0], 4);
  for (uint32_t slot = 0; slot < SLOTS; ++slot) bed.context[slot] = 1;
  decode_make(&d, &bed, 16, 4, 6);
  assert_int_equal(kc_ref_ops()->decode(NULL, &d.op), KC_OP_OK);
  for (uint32_t i = 0; i < d.op.rows * bed.q_heads; ++i) {
    const uint32_t slot = i / bed.q_heads, head = i % bed.q_heads / bed.shape.group;
    const size_t at = ((size_t)slot * CONTEXT * bed.shape.kv_heads + head) * bed.v_dim;
    assert_memory_equal(d.op.out + (size_t)i * bed.v_dim, bed.v_input + at, bed.v_dim * 2);
  }
  decode_free(&d);
  paged_bed_free(&bed);
}

/* A verdict, a padding row and an empty context: zeros, an lse of -infinity, and no page read (the
 * masked slot's entries are out of range). Other rows are untouched by it. */
static void masked_rows_are_zeros(void **state)
{
  (void)state;
  struct paged_bed bed;
  struct decode_bed free_run, masked;
  paged_bed_make(&bed, &shapes[0], 15);
  decode_make(&free_run, &bed, 16, 20, 2);
  assert_int_equal(kc_ref_ops()->decode(NULL, &free_run.op), KC_OP_OK);
  decode_make(&masked, &bed, 16, 20, 2);
  bed.verdict[1] = 0;
  masked.slot[2] = KC_NO_SLOT;
  for (uint32_t e = 0; e < bed.row_entries; ++e) bed.entry[bed.row_entries + e].page = 2147480000u;
  assert_int_equal(kc_ref_ops()->decode(NULL, &masked.op), KC_OP_OK);
  const size_t row = (size_t)bed.q_heads * bed.v_dim;
  for (uint32_t r = 0; r < SLOTS; ++r) {
    const bool zero = r == 1 || r == 2;
    for (size_t i = r * row; i < (r + 1) * row; ++i) {
      assert_int_equal(masked.op.out[i], zero ? 0 : free_run.op.out[i]);
    }
    assert_int_equal(isinf(masked.op.lse[r * bed.q_heads]) != 0, zero);
  }
  decode_free(&free_run);
  decode_free(&masked);
  paged_bed_free(&bed);
}

/* ---- prefill ---- */

static void prefill_is_naive_attention(void **state)
{
  (void)state;
  for (int s = 0; s < SHAPES; ++s) {
    struct paged_bed bed;
    uint64_t seed = 40 + (uint64_t)s;
    paged_bed_make(&bed, &shapes[s], seed);
    struct kc_attention_chunk chunk[SLOTS];
    uint32_t rows = 0;
    for (uint32_t slot = 0; slot < SLOTS; ++slot) { /* the tail of each slot, after a gap row */
      const uint32_t start = draw_below(&seed, bed.context[slot]);
      uint32_t count = bed.context[slot] - start;
      if (count > 9) count = 9;
      chunk[slot] = (struct kc_attention_chunk){slot, rows + 1, start, count};
      rows += count + 1;
    }
    const size_t q_width = (size_t)bed.q_heads * bed.q_dim;
    const size_t v_width = (size_t)bed.q_heads * bed.v_dim;
    uint16_t *q = take_bf16(rows * q_width, &seed, 1.0), *out = take(rows * v_width * 2);
    memset(out, 0x11, rows * v_width * 2);
    bed.verdict[3] = 2;
    const struct kc_op_prefill op = {
        .chunks = SLOTS,
        .q_heads = bed.q_heads,
        .chunk = chunk,
        .chunk_host = chunk,
        .q = q,
        .q_stride = q_width,
        .scale = 0.125f,
        .table = bed.table,
        .layer = bed.layer,
        .verdict = bed.verdict,
        .out = out,
        .out_stride = v_width,
    };
    assert_int_equal(kc_ref_ops()->prefill(NULL, &op), KC_OP_OK);
    double *want = take(v_width * sizeof *want);
    for (uint32_t slot = 0; slot < SLOTS; ++slot) {
      assert_int_equal(out[(chunk[slot].row - 1) * v_width], 0x1111); /* the gap row */
      for (uint32_t i = 0; i < chunk[slot].count; ++i) {
        const size_t row = chunk[slot].row + i;
        for (uint32_t h = 0; h < bed.q_heads; ++h) {
          paged_bed_naive(&bed, slot, chunk[slot].start + i + 1, h,
                          q + row * q_width + h * bed.q_dim, 0.125, want + h * bed.v_dim, NULL);
        }
        if (slot == 3) memset(want, 0, v_width * sizeof *want);
        const double error = nmse_bf16(out + row * v_width, want, v_width);
        if (!(error < 5e-6)) fail_msg("shape %d slot %u token %u: nmse %g", s, slot, i, error);
      }
    }
    free(q), free(out), free(want);
    paged_bed_free(&bed);
  }
}

/* ---- MLA ---- */

enum { HEADS = 4, NOPE = 32, ROPE = 16, LATENT = 64, VALUE = 48, TOKENS = 70 };

struct mla_weights {
  uint16_t *uk; /* [HEADS][NOPE][LATENT]: keys from latents */
  uint16_t *uk_t; /* [HEADS][LATENT][NOPE]: what absorbs it into queries */
  uint16_t *uv; /* [HEADS][VALUE][LATENT] */
};

/* Plain multi-head attention on keys and values expanded from the latents, in double. */
static void expanded_attention(const struct paged_bed *bed, const struct mla_weights *w,
                               const uint16_t *q, double scale, double *out)
{
  for (uint32_t h = 0; h < HEADS; ++h) {
    double score[TOKENS], max = -(double)INFINITY, sum = 0.0;
    for (uint32_t t = 0; t < TOKENS; ++t) {
      const double *c = bed->k + (size_t)t * (LATENT + ROPE);
      score[t] = 0.0;
      for (uint32_t n = 0; n < NOPE; ++n) {
        double key = 0.0;
        for (uint32_t i = 0; i < LATENT; ++i) {
          key += value_of(w->uk[(h * NOPE + n) * LATENT + i]) * c[i];
        }
        score[t] += value_of(q[h * (NOPE + ROPE) + n]) * key;
      }
      for (uint32_t i = 0; i < ROPE; ++i) {
        score[t] += value_of(q[h * (NOPE + ROPE) + NOPE + i]) * c[LATENT + i];
      }
      score[t] *= scale;
      max = fmax(max, score[t]);
    }
    for (uint32_t t = 0; t < TOKENS; ++t) sum += exp(score[t] - max);
    for (uint32_t n = 0; n < VALUE; ++n) {
      double value = 0.0;
      for (uint32_t t = 0; t < TOKENS; ++t) {
        const double *c = bed->k + (size_t)t * (LATENT + ROPE);
        double expanded = 0.0;
        for (uint32_t i = 0; i < LATENT; ++i) {
          expanded += value_of(w->uv[(h * VALUE + n) * LATENT + i]) * c[i];
        }
        value += exp(score[t] - max) / sum * expanded;
      }
      out[h * VALUE + n] = value;
    }
  }
}

/* The operations' way: absorb, attend over latents, expand. */
static void absorbed_attention(struct paged_bed *bed, const struct mla_weights *w,
                               const uint16_t *q, float scale, uint16_t *out)
{
  uint16_t *full = take(HEADS * (LATENT + ROPE) * 2);
  const struct kc_op_head_gemm absorb = {1, HEADS, LATENT, NOPE, q, HEADS * (NOPE + ROPE),
                                         NOPE + ROPE, w->uk_t, full, HEADS * (LATENT + ROPE),
                                         LATENT + ROPE};
  assert_int_equal(kc_ref_ops()->head_gemm(NULL, &absorb), KC_OP_OK);
  for (uint32_t h = 0; h < HEADS; ++h) {
    memcpy(full + h * (LATENT + ROPE) + LATENT, q + h * (NOPE + ROPE) + NOPE, ROPE * 2);
  }
  struct decode_bed d;
  decode_make(&d, bed, 16, 4, 1);
  d.op.q = full;
  d.op.scale = scale;
  assert_int_equal(kc_ref_ops()->decode(NULL, &d.op), KC_OP_OK);
  const struct kc_op_head_gemm expand = {1, HEADS, VALUE, LATENT, d.op.out, HEADS * LATENT,
                                         LATENT, w->uv, out, HEADS * VALUE, VALUE};
  assert_int_equal(kc_ref_ops()->head_gemm(NULL, &expand), KC_OP_OK);
  decode_free(&d);
  free(full);
}

static void absorbed_mla_is_multi_head_attention(void **state)
{
  (void)state;
  const struct paged_shape shape = {KC_PAGED_MLA, KC_KV_BF16, KC_KV_BF16, 16, 1,
                                    HEADS,     0,          LATENT,     ROPE, 1, TOKENS};
  struct paged_bed bed;
  uint64_t seed = 77;
  paged_bed_make(&bed, &shape, 3);
  while (bed.context[0] != TOKENS) { /* draw until the slot is full */
    paged_bed_free(&bed);
    paged_bed_make(&bed, &shape, seed++);
  }
  struct mla_weights w = {take_bf16(HEADS * NOPE * LATENT, &seed, 0.2),
                          take(HEADS * NOPE * LATENT * 2),
                          take_bf16(HEADS * VALUE * LATENT, &seed, 0.2)};
  for (uint32_t i = 0; i < HEADS * NOPE * LATENT; ++i) {
    const uint32_t h = i / (NOPE * LATENT), n = i / LATENT % NOPE, c = i % LATENT;
    w.uk_t[(h * LATENT + c) * NOPE + n] = w.uk[i];
  }
  uint16_t *q = take_bf16(HEADS * (NOPE + ROPE), &seed, 1.0), *out = take(HEADS * VALUE * 2);
  double want[HEADS * VALUE];
  expanded_attention(&bed, &w, q, 0.14433756729740643, want);
  absorbed_attention(&bed, &w, q, 0.14433757f, out);
  /* Three bf16 roundings instead of one: absorbed query, latent output, output. */
  const double error = nmse_bf16(out, want, HEADS * VALUE);
  print_message("absorbed MLA: nmse %g\n", error);
  assert_true(error < 3e-5);
  free(w.uk), free(w.uk_t), free(w.uv), free(q), free(out);
  paged_bed_free(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decode_is_naive_attention),
      cmocka_unit_test(any_split_is_no_split),
      cmocka_unit_test(pages_may_lie_anywhere),
      cmocka_unit_test(one_token_returns_its_value),
      cmocka_unit_test(masked_rows_are_zeros),
      cmocka_unit_test(prefill_is_naive_attention),
      cmocka_unit_test(absorbed_mla_is_multi_head_attention),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
