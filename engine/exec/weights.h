/* The weights of a model as the operations read them, built from any source of tensors.
 *
 *   source (safetensors, synthetic)  --bf16 or packed int4-->  formats per class  -->  struct
 *                                                              (kc_precision)          kc_weights
 *
 * Matrices that are multiplied by the same input lie under one another in one weight: q, k and v;
 * gate and up; MLA's q_a stays alone. MLA's kv_b is cut into what absorbs it: uk transposed per
 * head, and uv. Arrays are in one arena of the site whose operations will read them; on a device
 * INT4 matrices are in fragment order.
 */
#ifndef KC_ENGINE_EXEC_WEIGHTS_H
#define KC_ENGINE_EXEC_WEIGHTS_H

#include "engine/exec/site.h"
#include "engine/model/recipe.h"

/* Where tensors come from. Names are those of Hugging Face checkpoints. */
struct kc_weight_source {
  void *context;
  /* A rows x cols matrix (a vector: rows = 1) as bf16. */
  enum kc_err (*read)(void *context, const char *name, uint64_t rows, uint64_t cols,
                      uint16_t *out, struct kc_diag *diag);
  /* A vector as FP32. */
  enum kc_err (*read_f32)(void *context, const char *name, uint64_t count, float *out,
                          struct kc_diag *diag);
  /* The matrix `name` in the canonical int4 layout, where the source has it in groups of `group`;
   * *found false, and nothing read, where it has not. NULL: it never has. */
  enum kc_err (*read_int4)(void *context, const char *name, uint64_t rows, uint64_t cols,
                           uint32_t group, uint8_t *codes, uint16_t *scales, bool *found,
                           struct kc_diag *diag);
  /* Not NULL: the elements are those of the synthetic source with this seed, so a device may make
   * them by itself. */
  const uint64_t *seed;
  /* Asked before each matrix whether to give up (KC_ERR_INTERRUPTED). NULL: never. */
  bool (*interrupted)(void *context);
};

struct kc_layer_weights {
  const uint16_t *input_norm, *post_norm; /* [hidden] */
  struct kc_weight qkv, o;                /* GQA: rows of q, k, v */
  const uint16_t *q_norm, *k_norm;        /* [head_dim]; NULL: none */
  struct kc_weight q_a, q_b;              /* MLA; q_rank 0: q_b from hidden, q_a unused */
  const uint16_t *q_a_norm;               /* [q_rank] */
  struct kc_weight kv_a;                  /* [latent + rope][hidden] */
  const uint16_t *kv_a_norm;              /* [latent] */
  const uint16_t *uk;                     /* [heads][latent][nope] */
  const uint16_t *uv;                     /* [heads][value][latent] */
  struct kc_weight gate_up, down;         /* dense MLP, or the shared experts; rows 0: none */
  struct kc_weight router;                /* [experts][hidden]; rows 0: no experts */
  const float *router_bias;               /* NULL: none */
  struct kc_weight expert_gate_up, expert_down; /* of expert 0; the others follow: */
  uint64_t gate_up_data_bytes, gate_up_scale_bytes, down_data_bytes, down_scale_bytes;
};

struct kc_weights {
  struct kc_recipe recipe;
  struct kc_site site;
  const uint16_t *embedding; /* [vocabulary][hidden] */
  struct kc_weight head;     /* [vocabulary][hidden] */
  const uint16_t *final_norm;
  struct kc_layer_weights *layer; /* [layers], the host's memory */
  const float *rope_high, *rope_low;
  uint32_t positions;        /* that the tables cover */
  float attention_scale;
  uint64_t weight_bytes;     /* codes and scales; tables and alignment not counted */
  struct kc_arena arena, host;
};

/* Formats as kc_precision says (DEFAULT: bf16); router, norms, uk and uv, and the embedding are
 * bf16. `positions`: tokens a sequence may have. Errors of the source; KC_ERR_INPUT when a
 * precision says otherwise, a matrix does not divide into its format's groups, or a device has no
 * kernels for the format; KC_ERR_MEMORY, or KC_ERR_NO_FIT on a device. `site` NULL: the host. */
enum kc_err kc_weights_build(struct kc_weights *weights, const struct kc_site *site,
                             const struct kc_recipe *recipe,
                             const struct kc_precision *precision, uint32_t positions,
                             const struct kc_weight_source *source, struct kc_diag *diag);
void kc_weights_free(struct kc_weights *weights);

/* ---- sources ---- */

/* Synthetic: element i of a tensor is a function of (seed, name, i) alone, so any machine and any
 * GPU make the same bits. Matrices are nearly normal with deviation 1 / sqrt(cols), the embedding
 * with 1, norms are 1 + 1/8 of that, router biases 1/64. `seed` outlives the source. */
struct kc_weight_source kc_synthetic_source(const uint64_t *seed);
/* What the source does, for kernels that fill memory by themselves. */
uint64_t kc_synthetic_stream(const char *name);
float kc_synthetic_deviation(const char *name, uint64_t cols);
float kc_synthetic_mean(const char *name);

/* Files: tensors of BF16, F16, F32, E4M3 with scales per 128 x 128 (weight_scale_inv), or int4
 * packed by compressed-tensors, GPTQ (version 1) or AWQ. Names are looked up as they are and below
 * "language_model." KC_ERR_INPUT for a tensor that is absent, of another shape, or not finite. */
struct kc_safetensors;
struct kc_file_source {
  const struct kc_safetensors *files; /* borrowed */
  unsigned char *used;     /* borrowed; [tensors of files]: set to 1 where one was looked at; NULL:
                              nobody asks */
  uint64_t rounded;        /* out: elements whose value bf16 does not hold */
  uint64_t scales_rounded; /* out: int4 scales that bf16 does not hold */
  uint64_t unpacked;       /* out: packed matrices read as bf16: other group, or zero points */
};
struct kc_weight_source kc_safetensors_source(struct kc_file_source *source);

/* ---- rotary embedding ---- */

/* Radians a token for each pair, scalings included; dims / 2 numbers. */
void kc_rope_frequencies(const struct kc_recipe *recipe, uint32_t dims, double *frequency);
/* What the tables are multiplied by, and what scores are: 1 / sqrt(head dim) with YaRN's factor. */
double kc_rope_amplitude(const struct kc_recipe *recipe);
double kc_attention_scale(const struct kc_recipe *recipe);

#endif
