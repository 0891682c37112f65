/* Nanoseconds per token of the reference operations, through a model of under 100,000 parameters:
 * what the CPU executor needs for a replayed trace, one thread. Prints one JSON document a line.
 *
 * A block of 64 rows at a given context: as one chunk of a prompt, and as 64 decodes; the best of
 * five. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/exec/forward.h"
#include "kernels/ref/ref.h"

enum { ROWS = 64, PAGE = 16, CONTEXT_MAX = 4096, TURNS = 5 };

static const char config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 1,"
    " \"head_dim\": 16, \"vocab_size\": 128, \"max_position_embeddings\": 8192,"
    " \"torch_dtype\": \"bfloat16\"}";

struct bench {
  struct kc_model model;
  struct kc_weights weights;
  struct kc_cache cache;
  struct kc_arena arena;
  struct kc_forward forward;
  struct kc_page_ref entry[ROWS * (CONTEXT_MAX / PAGE)];
};

static double now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static enum kc_err set_up(struct bench *b, struct kc_diag *diag)
{
  static const uint64_t seed = 1;
  struct kc_recipe recipe;
  struct kc_precision precision;
  const struct kc_weight_source source = kc_synthetic_source(&seed);
  const uint32_t pages = ROWS * (CONTEXT_MAX / PAGE);
  const struct kc_cache_config cache = {KC_KV_BF16, KC_KV_BF16, pages, PAGE, 0, 0, {0}};
  const struct kc_forward_config pass = {.weights = &b->weights, .cache = &b->cache,
                                         .table = {b->entry, ROWS, CONTEXT_MAX / PAGE},
                                         .rows_max = ROWS};
  KC_TRY(kc_model_parse(&b->model, config, sizeof config - 1, "bench.json", diag));
  KC_TRY(kc_recipe_parse(&recipe, &b->model, config, sizeof config - 1, diag));
  kc_precision_default(&precision);
  KC_TRY(kc_weights_build(&b->weights, NULL, &recipe, &precision, CONTEXT_MAX, &source, diag));
  KC_TRY(kc_cache_init(&b->cache, &recipe, &cache, diag));
  KC_TRY(kc_arena_init(&b->arena, kc_forward_need(&recipe, ROWS), diag));
  for (uint32_t i = 0; i < pages; i++) b->entry[i] = (struct kc_page_ref){i, 1};
  return kc_forward_init(&b->forward, &pass, &b->arena, diag);
}

static double time_block(struct bench *b, struct kc_piece *piece, uint32_t pieces)
{
  int32_t token[ROWS];
  double best = 1e18;
  for (int i = 0; i < ROWS; i++) token[i] = i;
  for (int turn = 0; turn < TURNS; turn++) {
    const double begin = now_ns();
    if (kc_forward_run(&b->forward, piece, pieces, token) != KC_OP_OK) return -1;
    const double spent = now_ns() - begin;
    if (spent < best) best = spent;
  }
  return best / ROWS;
}

int main(void)
{
  static struct bench bench;
  struct kc_diag diag = {0};
  if (set_up(&bench, &diag) != KC_OK) {
    fprintf(stderr, "bench_forward: %s\n", diag.text);
    return 1;
  }
  for (uint32_t context = 64; context <= CONTEXT_MAX; context *= 8) {
    struct kc_piece chunk = {.slot = 0, .start = context - ROWS, .count = ROWS}, decode[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
      decode[i] = (struct kc_piece){.slot = i, .start = context - 1, .count = 1, .yields = true};
    }
    const double chunk_ns = time_block(&bench, &chunk, 1);
    const double decode_ns = time_block(&bench, decode, ROWS);
    printf("{\"bench\": \"forward\", \"weight_bytes\": %" PRIu64 ", \"context\": %u, "
           "\"chunk_token_ns\": %.0f, \"decode_token_ns\": %.0f}\n",
           bench.weights.weight_bytes, context, chunk_ns, decode_ns);
  }
  kc_arena_deinit(&bench.arena);
  kc_cache_deinit(&bench.cache);
  kc_weights_free(&bench.weights);
  return 0;
}
