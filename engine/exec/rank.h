/* One rank of a tensor-parallel group, alone on one device.
 *
 *   recipe --shard--> heads, widths and vocabulary of one rank; weights, pool and passes as ever
 *   kc_collective     the time that it would wait for its peers
 *   ballast           memory for weights that a server holds and the engine does not run
 *
 * So a model that needs eight GPUs is met on one: the rank's weights, its pool, its step, and the
 * number of requests at which it runs out of memory. Synthetic weights; a step's tokens are random,
 * so that routing spreads as it does.
 */
#ifndef KC_ENGINE_EXEC_RANK_H
#define KC_ENGINE_EXEC_RANK_H

#include "engine/exec/executor.h"

/* The recipe of a rank of `tensor`: heads, KV heads (one where there are fewer), widths of MLPs and
 * experts divided, the vocabulary rounded up; what is replicated stays. KC_ERR_INPUT when it does
 * not divide. */
enum kc_err kc_recipe_shard(struct kc_recipe *recipe, uint32_t tensor, struct kc_diag *diag);

/* The formats in which a checkpoint holds what the engine runs. */
struct kc_precision kc_rank_precision(const struct kc_model *model,
                                      const struct kc_precision *precision);

struct kc_rank_config {
  struct kc_site site;
  const struct kc_recipe *recipe;    /* of the rank; borrowed, like the precision */
  const struct kc_precision *precision;
  enum kc_kv_format kv_format;       /* BF16 or FP8_E4M3 */
  uint32_t page_tokens;
  uint32_t batch_max;                /* requests of a step, at most */
  uint32_t context_max;              /* tokens of a request, at most */
  uint64_t ballast_bytes;            /* of weights that the engine does not run */
  uint64_t pages;                    /* of the pool; 0: as many as there is room for */
  struct kc_collective collective;
};

/* What setting up has shown. */
struct kc_rank_memory {
  uint64_t total_bytes;   /* of the device */
  uint64_t free_before;   /* before anything was allocated */
  uint64_t free_weights;  /* after weights and ballast */
  uint64_t weight_bytes;  /* codes and scales, counted */
  uint64_t scratch_bytes; /* of passes and tables */
  uint64_t page_bytes;
  uint64_t pages_largest; /* the largest pool that could be allocated; 0 where pages were given */
  uint64_t pages;         /* of the pool that is there */
};

struct kc_rank; /* heap */

/* KC_ERR_NO_FIT when the weights, or a single page beside them, have no room. */
enum kc_err kc_rank_create(struct kc_rank **out, const struct kc_rank_config *config,
                           struct kc_rank_memory *memory, struct kc_diag *diag);
void kc_rank_destroy(struct kc_rank *rank);

struct kc_rank_time {
  double device_us; /* from the first operation of a step to its last, median */
  double wall_us;   /* with what the host does, median */
  double unchecked_us; /* device_us without the tag check */
  bool graph;       /* the steps were launched as a graph */
};

/* Times a decode step of `batch` requests that have `context` tokens each. KC_ERR_NO_FIT when the
 * pool has not as many pages; KC_ERR_DEVICE. */
enum kc_err kc_rank_time(struct kc_rank *rank, uint32_t batch, uint32_t context, uint32_t runs,
                         struct kc_rank_time *out, struct kc_diag *diag);

#endif
