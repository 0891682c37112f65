/* See naive_model.h. Sequences are short, so everything is recomputed for every call. */
#include "naive_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/formats/bf16.h"

enum { WIDTH = 512, TOKENS = 160, EXPERTS = 64 };

struct state {
  const struct kc_weights *w;
  uint32_t count;
  double h[TOKENS][WIDTH];
};

static double bf16(const void *data, uint64_t index)
{
  return (double)kc_bf16_decode(((const uint16_t *)data)[index]);
}

/* y = W x, rows [first, first + rows) of W. */
static void multiply(const struct kc_weight *w, uint64_t first, uint64_t rows, const double *x,
                     double *y)
{
  assert_int_equal(w->format, KC_WEIGHT_BF16);
  for (uint64_t n = 0; n < rows; n++) {
    y[n] = 0;
    for (uint64_t k = 0; k < w->cols; k++) y[n] += bf16(w->data, (first + n) * w->cols + k) * x[k];
  }
}

static void normalise(const struct state *s, const uint16_t *weight, uint32_t width,
                      const double *x, double *y)
{
  double mean = 0;
  for (uint32_t i = 0; i < width; i++) mean += x[i] * x[i] / width;
  const double scale = 1 / sqrt(mean + s->w->recipe.norm_epsilon);
  for (uint32_t i = 0; i < width; i++) y[i] = x[i] * scale * bf16(weight, i);
}

/* Turns pairs by position * frequency: halves for GQA, neighbours for MLA. */
static void rotate(const struct state *s, double *x, uint32_t dims, uint32_t position)
{
  double frequency[WIDTH / 2];
  const struct kc_recipe *r = &s->w->recipe;
  kc_rope_frequencies(r, dims, frequency);
  for (uint32_t i = 0; i < dims / 2; i++) {
    const double angle = position * frequency[i], amplitude = kc_rope_amplitude(r);
    double *a = r->mla ? &x[2 * i] : &x[i], *b = r->mla ? &x[2 * i + 1] : &x[i + dims / 2];
    const double c = cos(angle) * amplitude, d = sin(angle) * amplitude, first = *a;
    *a = first * c - *b * d;
    *b = first * d + *b * c;
  }
}

/* One head: q of token t against keys and values of tokens 0 .. t. */
static void attend(uint32_t t, uint32_t width, uint32_t value_width, double scale, const double *q,
                   double (*k)[WIDTH], double (*v)[WIDTH], double *out)
{
  double score[TOKENS], max = -(double)INFINITY, sum = 0;
  for (uint32_t j = 0; j <= t; j++) {
    score[j] = 0;
    for (uint32_t i = 0; i < width; i++) score[j] += q[i] * k[j][i] * scale;
    max = fmax(max, score[j]);
  }
  for (uint32_t j = 0; j <= t; j++) sum += exp(score[j] - max);
  for (uint32_t i = 0; i < value_width; i++) {
    out[i] = 0;
    for (uint32_t j = 0; j <= t; j++) out[i] += exp(score[j] - max) / sum * v[j][i];
  }
}

/* Query of one head of a token. */
static void query(const struct state *s, const struct kc_layer_weights *w, uint32_t head,
                  uint32_t t, const double *x, double *q)
{
  const struct kc_recipe *r = &s->w->recipe;
  double low[WIDTH];
  if (!r->mla) {
    multiply(&w->qkv, (uint64_t)head * r->head_dim, r->head_dim, x, q);
    rotate(s, q, r->head_dim, t);
    return;
  }
  multiply(&w->q_a, 0, r->q_rank, x, low);
  normalise(s, w->q_a_norm, r->q_rank, low, low);
  multiply(&w->q_b, (uint64_t)head * r->head_dim, r->head_dim, low, q);
  rotate(s, q + r->nope, r->rope, t);
}

/* Key and value of one head of a token; MLA expands them from the latent. */
static void key_value(const struct state *s, const struct kc_layer_weights *w, uint32_t head,
                      uint32_t t, const double *x, double *k, double *v)
{
  const struct kc_recipe *r = &s->w->recipe;
  double kv[WIDTH];
  if (!r->mla) {
    const uint64_t kv_head = head / (r->heads / r->kv_heads);
    multiply(&w->qkv, (r->heads + kv_head) * r->head_dim, r->head_dim, x, k);
    multiply(&w->qkv, (r->heads + r->kv_heads + kv_head) * r->head_dim, r->head_dim, x, v);
    rotate(s, k, r->head_dim, t);
    return;
  }
  multiply(&w->kv_a, 0, r->latent + r->rope, x, kv);
  normalise(s, w->kv_a_norm, r->latent, kv, kv);
  rotate(s, kv + r->latent, r->rope, t);
  for (uint64_t n = 0; n < r->nope; n++) {
    k[n] = 0;
    for (uint64_t i = 0; i < r->latent; i++) {
      k[n] += bf16(w->uk, (head * (uint64_t)r->latent + i) * r->nope + n) * kv[i];
    }
  }
  memcpy(k + r->nope, kv + r->latent, r->rope * sizeof *k);
  for (uint64_t n = 0; n < r->value; n++) {
    v[n] = 0;
    for (uint64_t i = 0; i < r->latent; i++) {
      v[n] += bf16(w->uv, (head * (uint64_t)r->value + n) * r->latent + i) * kv[i];
    }
  }
}

static void attention(struct state *s, const struct kc_layer_weights *w)
{
  const struct kc_recipe *r = &s->w->recipe;
  static double x[TOKENS][WIDTH], k[TOKENS][WIDTH], v[TOKENS][WIDTH], mixed[TOKENS][WIDTH];
  const uint32_t value_width = r->mla ? r->value : r->head_dim;
  const double scale = kc_attention_scale(r);
  double q[WIDTH], out[WIDTH];
  for (uint32_t t = 0; t < s->count; t++) normalise(s, w->input_norm, r->hidden, s->h[t], x[t]);
  for (uint32_t head = 0; head < r->heads; head++) {
    for (uint32_t t = 0; t < s->count; t++) key_value(s, w, head, t, x[t], k[t], v[t]);
    for (uint32_t t = 0; t < s->count; t++) {
      query(s, w, head, t, x[t], q);
      attend(t, r->head_dim, value_width, scale, q, k, v, mixed[t] + head * value_width);
    }
  }
  for (uint32_t t = 0; t < s->count; t++) {
    multiply(&w->o, 0, r->hidden, mixed[t], out);
    for (uint32_t i = 0; i < r->hidden; i++) s->h[t][i] += out[i];
  }
}

/* y += factor * down(silu(gate x) * up x) */
static void mlp(const struct kc_weight *gate_up, const struct kc_weight *down, double factor,
                const double *x, double *y)
{
  double both[2 * WIDTH], act[WIDTH], out[WIDTH];
  const uint32_t width = down->cols;
  multiply(gate_up, 0, 2ull * width, x, both);
  for (uint32_t i = 0; i < width; i++) act[i] = both[i] / (1 + exp(-both[i])) * both[width + i];
  multiply(down, 0, down->rows, act, out);
  for (uint32_t i = 0; i < down->rows; i++) y[i] += factor * out[i];
}

/* DeepSeek's rule: sigmoid, bias for the choice, groups by the sum of their two best. */
static void experts(const struct state *s, const struct kc_layer_weights *w, const double *x,
                    double *y)
{
  const struct kc_recipe *r = &s->w->recipe;
  double logit[EXPERTS], score[EXPERTS], choice[EXPERTS], total = 0;
  bool open[EXPERTS] = {false}, chosen[EXPERTS] = {false};
  const uint32_t size = r->experts / r->groups;
  multiply(&w->router, 0, r->experts, x, logit);
  for (uint32_t e = 0; e < r->experts; e++) {
    score[e] = 1 / (1 + exp(-logit[e]));
    choice[e] = score[e] + (double)w->router_bias[e];
  }
  for (uint32_t n = 0; n < r->groups_top; n++) {
    uint32_t best = 0;
    double best_sum = -(double)INFINITY;
    for (uint32_t g = 0; g < r->groups; g++) {
      double one = -(double)INFINITY, two = one;
      for (uint32_t e = g * size; e < (g + 1) * size; e++) {
        if (choice[e] > one) two = one, one = choice[e];
        else if (choice[e] > two) two = choice[e];
      }
      if (!open[g * size] && one + two > best_sum) best = g, best_sum = one + two;
    }
    for (uint32_t e = best * size; e < (best + 1) * size; e++) open[e] = true;
  }
  for (uint32_t n = 0; n < r->top; n++) {
    uint32_t best = r->experts;
    for (uint32_t e = 0; e < r->experts; e++) {
      if (!open[e] || chosen[e]) continue;
      if (best == r->experts || choice[e] > choice[best]) best = e;
    }
    chosen[best] = true;
    total += score[best];
  }
  for (uint32_t e = 0; e < r->experts; e++) {
    struct kc_weight gate_up = w->expert_gate_up, down = w->expert_down;
    gate_up.data = (const uint8_t *)gate_up.data + e * w->gate_up_data_bytes;
    down.data = (const uint8_t *)down.data + e * w->down_data_bytes;
    if (chosen[e]) mlp(&gate_up, &down, score[e] / total * r->routed_factor, x, y);
  }
}

void naive_logits(const struct kc_weights *weights, const int32_t *token, uint32_t count,
                  double *logits)
{
  const struct kc_recipe *r = &weights->recipe;
  struct state *s = calloc(1, sizeof *s);
  double x[WIDTH];
  assert_non_null(s);
  assert_true(count > 0 && count <= TOKENS);
  s->w = weights;
  s->count = count;
  for (uint32_t t = 0; t < count; t++) {
    for (uint64_t i = 0; i < r->hidden; i++) {
      s->h[t][i] = bf16(weights->embedding, (uint64_t)token[t] * r->hidden + i);
    }
  }
  for (uint32_t layer = 0; layer < r->layers; layer++) {
    const struct kc_layer_weights *w = &weights->layer[layer];
    attention(s, w);
    for (uint32_t t = 0; t < count; t++) {
      normalise(s, w->post_norm, r->hidden, s->h[t], x);
      if (w->router.rows > 0) experts(s, w, x, s->h[t]);
      if (w->gate_up.rows > 0) mlp(&w->gate_up, &w->down, 1, x, s->h[t]);
    }
  }
  normalise(s, weights->final_norm, r->hidden, s->h[count - 1], x);
  multiply(&weights->head, 0, r->vocabulary, x, logits);
  free(s);
}
