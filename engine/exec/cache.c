/* Laying out the KV pool: see the header for the picture. Pages are as tight as the layouts allow;
 * memory comes from one arena, zeroed, and untouched pages cost nothing. */
#include "engine/exec/cache.h"

#include "engine/base/check.h"
#include "kernels/ops/op_check.h"

static struct kc_kv_layer shape(const struct kc_recipe *recipe,
                                const struct kc_cache_config *config)
{
  struct kc_kv_layer layer = {.kind = recipe->mla ? KC_PAGED_MLA : KC_PAGED_GQA,
                              .k_format = config->k_format,
                              .v_format = config->v_format,
                              .pages = config->pages,
                              .page_tokens = config->page_tokens,
                              .kv_heads = recipe->mla ? 1 : recipe->kv_heads,
                              .head_dim = recipe->mla ? 0 : recipe->head_dim,
                              .latent = recipe->latent,
                              .rope = recipe->rope};
  KC_ASSERT(config->page_tokens > 0);
  if (recipe->mla && layer.k_format == KC_KV_FP8_E4M3) layer.k_format = KC_KV_FP8_G128;
  layer.k_page_bytes = (kc_kv_page_bytes_k(&layer) + 15) / 16 * 16;
  layer.v_page_bytes = (kc_kv_page_bytes_v(&layer) + 15) / 16 * 16;
  return layer;
}

uint64_t kc_cache_page_bytes(const struct kc_recipe *recipe, const struct kc_cache_config *config)
{
  const struct kc_kv_layer layer = shape(recipe, config);
  KC_ASSERT(recipe->layers > 0);
  return recipe->layers * (layer.k_page_bytes + layer.v_page_bytes);
}

/* One scale for every head. */
static const float *take_scales(struct kc_cache *cache, uint32_t heads, float scale)
{
  float *scales = kc_arena_take(&cache->arena, heads, sizeof *scales);
  KC_ASSERT(heads > 0);
  for (uint32_t i = 0; scales != NULL && i < heads; i++) scales[i] = scale > 0 ? scale : 1.0f;
  return scales;
}

static size_t bytes_needed(const struct kc_kv_layer *layer, uint32_t layers)
{
  const size_t pools = kc_arena_need(layer->pages, layer->k_page_bytes) +
                       kc_arena_need(layer->pages, layer->v_page_bytes + 1);
  KC_ASSERT(layers > 0);
  return layers * (pools + 64) + kc_arena_need(layers, sizeof *layer) +
         2 * kc_arena_need(layer->kv_heads, sizeof(float));
}

enum kc_err kc_cache_init(struct kc_cache *cache, const struct kc_recipe *recipe,
                          const struct kc_cache_config *config, struct kc_diag *diag)
{
  struct kc_kv_layer layer = shape(recipe, config);
  KC_ASSERT(config->pages > 0);
  *cache = (struct kc_cache){.layers = recipe->layers};
  KC_TRY(kc_arena_init(&cache->arena, bytes_needed(&layer, recipe->layers), diag));
  cache->layer = kc_arena_take(&cache->arena, recipe->layers, sizeof *cache->layer);
  layer.k_scale = take_scales(cache, layer.kv_heads, config->k_scale);
  layer.v_scale = take_scales(cache, layer.kv_heads, config->v_scale);
  for (uint32_t i = 0; cache->layer != NULL && i < recipe->layers; i++) {
    layer.k = kc_arena_take(&cache->arena, layer.pages, layer.k_page_bytes);
    layer.v = recipe->mla ? NULL : kc_arena_take(&cache->arena, layer.pages, layer.v_page_bytes);
    cache->layer[i] = layer;
    cache->bytes += layer.pages * (layer.k_page_bytes + layer.v_page_bytes);
  }
  if (cache->layer != NULL && kc_kv_layer_valid(&cache->layer[recipe->layers - 1])) return KC_OK;
  kc_cache_deinit(cache);
  return kc_fail(diag, KC_ERR_INPUT,
                 "the engine keeps K and V as bf16 or fp8-e4m3; %s and %s are not that, or the "
                 "model's latent width is no multiple of 128",
                 kc_kv_format_name(config->k_format), kc_kv_format_name(config->v_format));
}

void kc_cache_deinit(struct kc_cache *cache)
{
  KC_ASSERT(cache != NULL);
  if (cache->arena.base != NULL) kc_arena_deinit(&cache->arena);
  *cache = (struct kc_cache){0};
}
