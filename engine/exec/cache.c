/* Laying out the KV pool: see the header for the picture. Pages are as tight as the layouts allow;
 * memory comes from one arena; on the host it is zeroed, and untouched pages cost nothing. */
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

/* One scale for every head; NULL when it could not be sent. */
static const float *put_scales(struct kc_cache *cache, uint32_t heads, float scale)
{
  float *there = kc_arena_take(&cache->arena, heads, sizeof *there);
  float *scales = kc_arena_take(&cache->host, heads, sizeof *scales);
  KC_ASSERT(heads > 0 && there != NULL);
  KC_ASSERT(scales != NULL);
  for (uint32_t i = 0; i < heads; i++) scales[i] = scale > 0 ? scale : 1.0f;
  return kc_site_put(&cache->site, there, scales, heads * sizeof *there) == KC_OP_OK ? there
                                                                                      : NULL;
}

static enum kc_err make_arenas(struct kc_cache *cache, const struct kc_kv_layer *layer,
                               uint32_t layers, struct kc_diag *diag)
{
  const size_t scales = 2 * kc_arena_need(layer->kv_heads, sizeof(float));
  const size_t pools = kc_arena_need(layer->pages, layer->k_page_bytes) +
                       kc_arena_need(layer->pages, layer->v_page_bytes);
  KC_ASSERT(layers > 0);
  KC_TRY(kc_site_arena(&cache->site, &cache->arena, layers * pools + scales, diag));
  return kc_arena_init(&cache->host, kc_arena_need(layers, sizeof *layer) + scales, diag);
}

static enum kc_err lay_out(struct kc_cache *cache, const struct kc_cache_config *config,
                           struct kc_kv_layer layer, struct kc_diag *diag)
{
  KC_TRY(make_arenas(cache, &layer, cache->layers, diag));
  cache->layer = kc_arena_take(&cache->host, cache->layers, sizeof *cache->layer);
  layer.k_scale = put_scales(cache, layer.kv_heads, config->k_scale);
  layer.v_scale = put_scales(cache, layer.kv_heads, config->v_scale);
  KC_ASSERT(cache->layer != NULL);
  if (layer.k_scale == NULL || layer.v_scale == NULL) {
    return kc_site_fail(&cache->site, KC_OP_DEVICE, "sending KV scales", diag);
  }
  for (uint32_t i = 0; i < cache->layers; i++) {
    layer.k = kc_arena_take(&cache->arena, layer.pages, layer.k_page_bytes);
    layer.v = NULL;
    if (layer.v_page_bytes > 0) {
      layer.v = kc_arena_take(&cache->arena, layer.pages, layer.v_page_bytes);
    }
    cache->layer[i] = layer;
    cache->bytes += layer.pages * (layer.k_page_bytes + layer.v_page_bytes);
  }
  if (kc_kv_layer_valid(&cache->layer[cache->layers - 1])) return KC_OK;
  return kc_fail(diag, KC_ERR_INPUT,
                 "the engine keeps K and V as bf16 or fp8-e4m3; %s and %s are not that, or the "
                 "model's latent width is no multiple of 128",
                 kc_kv_format_name(config->k_format), kc_kv_format_name(config->v_format));
}

enum kc_err kc_cache_init(struct kc_cache *cache, const struct kc_recipe *recipe,
                          const struct kc_cache_config *config, struct kc_diag *diag)
{
  const uint32_t page = config->page_tokens;
  KC_ASSERT(config->pages > 0 && page > 0);
  if (!kc_site_is_host(&config->site) && (page < 16 || page > 128 || (page & (page - 1)) != 0)) {
    return kc_fail(diag, KC_ERR_INPUT, "pages of %u tokens: the device's kernels take 16, 32, 64 "
                   "or 128 (pools.NAME.kv.page_size)", page);
  }
  *cache = (struct kc_cache){.layers = recipe->layers, .site = kc_site_or_host(&config->site)};
  const enum kc_err err = lay_out(cache, config, shape(recipe, config), diag);
  if (err != KC_OK) kc_cache_deinit(cache);
  return err;
}

void kc_cache_deinit(struct kc_cache *cache)
{
  KC_ASSERT(cache != NULL);
  kc_site_arena_free(&cache->site, &cache->arena);
  if (cache->host.base != NULL) kc_arena_deinit(&cache->host);
  *cache = (struct kc_cache){0};
}
