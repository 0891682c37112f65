/* The KV pool of all layers, where the operations run.
 *
 *   layer 0 [page][...] | layer 1 [page][...] | ...      K pools, then V pools (GQA)
 *
 * FP8 scales of GQA are one for all heads here (kv_scale); MLA's FP8 scales lie in its records.
 */
#ifndef KC_ENGINE_EXEC_CACHE_H
#define KC_ENGINE_EXEC_CACHE_H

#include "engine/exec/site.h"
#include "engine/model/recipe.h"

struct kc_cache_config {
  enum kc_kv_format k_format, v_format; /* BF16 or FP8_E4M3 (in MLA: kept as FP8_G128 records) */
  uint32_t pages, page_tokens;
  float k_scale, v_scale; /* GQA FP8; 0 reads as 1 */
  struct kc_site site;  /* zeroed: the host */
};

struct kc_cache {
  struct kc_kv_layer *layer; /* [layers], the host's memory */
  uint32_t layers;
  uint64_t bytes;            /* of the pools */
  struct kc_site site;
  struct kc_arena arena, host;
};

/* KC_ERR_INPUT for formats that the model cannot keep, KC_ERR_MEMORY; KC_ERR_NO_FIT when a device
 * has no room. */
enum kc_err kc_cache_init(struct kc_cache *cache, const struct kc_recipe *recipe,
                          const struct kc_cache_config *config, struct kc_diag *diag);
void kc_cache_deinit(struct kc_cache *cache);

/* Bytes of one page over all layers, K and V. */
uint64_t kc_cache_page_bytes(const struct kc_recipe *recipe,
                             const struct kc_cache_config *config);

#endif
