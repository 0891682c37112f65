/* Vision towers: MoonViT (Kimi K2.5/K2.6) and the tower of Llama 4. All of it is class VISION, in
 * the checkpoint's dtype, replicated on every tensor rank (SGLang and vLLM run it data-parallel or
 * unsharded), and takes no part in a text token's pass.
 *
 * Names and shapes of MoonViT follow the published safetensors of Kimi K2.5. Tensors outside the
 * text model's layers count all their copies in per_layer.
 */
#include "engine/base/check.h"
#include "engine/model/build.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { WIDTH_MAX = 1 << 20, BLOCKS_MAX = KC_LAYERS_MAX };

static struct kc_tensor_spec matrix(const char *name, uint64_t rows, uint64_t cols, uint32_t copies)
{
  KC_ASSERT(rows > 0);
  KC_ASSERT(cols > 0);
  return (struct kc_tensor_spec){name, KC_CLASS_VISION, rows, cols, KC_SHARD_REPLICATE, copies, 0};
}

static struct kc_tensor_spec vector(const char *name, uint64_t width, uint32_t copies)
{
  return matrix(name, 1, width, copies);
}

/* Patch and position embeddings: matrices that no scheme quantises. */
static struct kc_tensor_spec kept(const char *name, uint64_t rows, uint64_t cols)
{
  struct kc_tensor_spec spec = matrix(name, rows, cols, 1);
  spec.flags = KC_SPEC_KEEP;
  return spec;
}

struct moonvit {
  uint32_t blocks, hidden, intermediate, patch, grid_height, grid_width, merged;
};

/* Weight and bias of one norm count as two vectors. */
static void add_moonvit_blocks(struct kc_build *build, const struct moonvit *vit)
{
  const uint64_t hidden = vit->hidden, wide = vit->intermediate;
  const uint32_t blocks = vit->blocks;
  KC_ASSERT(blocks > 0);
  const struct kc_tensor_spec specs[] = {
      matrix("vision.blocks.N.wqkv", 3 * hidden, hidden, blocks),
      vector("vision.blocks.N.wqkv.bias", 3 * hidden, blocks),
      matrix("vision.blocks.N.wo", hidden, hidden, blocks),
      vector("vision.blocks.N.wo.bias", hidden, blocks),
      matrix("vision.blocks.N.mlp.fc0", wide, hidden, blocks),
      vector("vision.blocks.N.mlp.fc0.bias", wide, blocks),
      matrix("vision.blocks.N.mlp.fc1", hidden, wide, blocks),
      vector("vision.blocks.N.mlp.fc1.bias", hidden, blocks),
      vector("vision.blocks.N.norm0", hidden, 2 * blocks),
      vector("vision.blocks.N.norm1", hidden, 2 * blocks),
      vector("vision.final_layernorm", hidden, 2),
  };
  kc_build_add(build, specs, COUNT(specs), NULL);
}

static void add_moonvit_ends(struct kc_build *build, const struct moonvit *vit)
{
  const uint64_t hidden = vit->hidden, merged = vit->merged;
  const uint64_t patch = (uint64_t)3 * vit->patch * vit->patch;
  const uint64_t grid = (uint64_t)vit->grid_height * vit->grid_width;
  const uint64_t text_hidden = build->model->hidden;
  const struct kc_tensor_spec specs[] = {
      kept("vision.patch_embed.proj", hidden, patch),
      vector("vision.patch_embed.proj.bias", hidden, 1),
      kept("vision.patch_embed.pos_emb", grid, hidden),
      vector("mm_projector.pre_norm", hidden, 2),
      matrix("mm_projector.proj.0", merged, merged, 1),
      vector("mm_projector.proj.0.bias", merged, 1),
      matrix("mm_projector.proj.2", text_hidden, merged, 1),
      vector("mm_projector.proj.2.bias", text_hidden, 1),
  };
  kc_build_add(build, specs, COUNT(specs), NULL);
}

void kc_vision_moonvit(struct kc_build *build)
{
  struct kc_hf *hf = build->hf;
  struct moonvit vit = {
      .blocks = kc_hf_u32(hf, "vt_num_hidden_layers", 1, BLOCKS_MAX),
      .hidden = kc_hf_u32(hf, "vt_hidden_size", 1, WIDTH_MAX / 64),
      .intermediate = kc_hf_u32(hf, "vt_intermediate_size", 1, WIDTH_MAX),
      .patch = kc_hf_u32(hf, "patch_size", 1, 256),
      .grid_height = kc_hf_u32_or(hf, "init_pos_emb_height", 1, 4096, 64),
      .grid_width = kc_hf_u32_or(hf, "init_pos_emb_width", 1, 4096, 64),
  };
  uint64_t merge = 1;
  const json_t *kernel = kc_hf_array_or_null(hf, "merge_kernel_size", 2);
  for (size_t i = 0; i < 2; i++) {
    const json_int_t side = kernel == NULL ? 2 : json_integer_value(json_array_get(kernel, i));
    if (side < 1 || side > 8) {
      (void)kc_hf_fail(hf, "merge_kernel_size", "is not two whole numbers from 1 to 8");
      return;
    }
    merge *= (uint64_t)side;
  }
  vit.merged = (uint32_t)(merge * vit.hidden);
  KC_ASSERT(vit.merged <= WIDTH_MAX);
  build->model->vision_layers = vit.blocks;
  add_moonvit_ends(build, &vit);
  add_moonvit_blocks(build, &vit);
}

/* The tower of Llama 4 (transformers, Llama4VisionModel): q, k, v and o with bias, a two-layer MLP,
 * two norms per block; then pixel shuffle by `pixel_shuffle_ratio`, a two-layer adapter without
 * bias and one projection to the text width. */
struct llama4_vision {
  uint32_t blocks, hidden, intermediate, patch, image, adapter_in, adapter_out, output;
};

static void add_llama4_blocks(struct kc_build *build, const struct llama4_vision *vit)
{
  const uint64_t hidden = vit->hidden, wide = vit->intermediate;
  const uint32_t blocks = vit->blocks;
  const struct kc_tensor_spec specs[] = {
      matrix("vision.layers.N.self_attn.qkvo", hidden, hidden, 4 * blocks),
      vector("vision.layers.N.self_attn.qkvo.bias", hidden, 4 * blocks),
      matrix("vision.layers.N.mlp.fc1", wide, hidden, blocks),
      vector("vision.layers.N.mlp.fc1.bias", wide, blocks),
      matrix("vision.layers.N.mlp.fc2", hidden, wide, blocks),
      vector("vision.layers.N.mlp.fc2.bias", hidden, blocks),
      vector("vision.layers.N.layernorms", hidden, 4 * blocks),
  };
  kc_build_add(build, specs, COUNT(specs), NULL);
}

static void add_llama4_ends(struct kc_build *build, const struct llama4_vision *vit)
{
  const uint64_t hidden = vit->hidden;
  const uint64_t side = vit->image / vit->patch;
  const uint64_t text_hidden = build->model->hidden;
  const struct kc_tensor_spec specs[] = {
      kept("vision.patch_embedding", hidden, (uint64_t)3 * vit->patch * vit->patch),
      vector("vision.class_embedding", hidden, 1),
      kept("vision.positional_embedding", side * side + 1, hidden),
      vector("vision.layernorm_pre_post", hidden, 4),
      matrix("vision.adapter.mlp.fc1", vit->adapter_in, vit->intermediate, 1),
      matrix("vision.adapter.mlp.fc2", vit->adapter_out, vit->adapter_in, 1),
      matrix("multi_modal_projector.linear_1", text_hidden, vit->output, 1),
  };
  kc_build_add(build, specs, COUNT(specs), NULL);
}

void kc_vision_llama4(struct kc_build *build)
{
  struct kc_hf *hf = build->hf;
  const struct llama4_vision vit = {
      .blocks = kc_hf_u32(hf, "num_hidden_layers", 1, BLOCKS_MAX),
      .hidden = kc_hf_u32(hf, "hidden_size", 1, WIDTH_MAX),
      .intermediate = kc_hf_u32(hf, "intermediate_size", 1, WIDTH_MAX),
      .patch = kc_hf_u32(hf, "patch_size", 1, 256),
      .image = kc_hf_u32(hf, "image_size", 1, 1 << 16),
      .adapter_in = kc_hf_u32(hf, "projector_input_dim", 1, WIDTH_MAX),
      .adapter_out = kc_hf_u32(hf, "projector_output_dim", 1, WIDTH_MAX),
      .output = kc_hf_u32(hf, "vision_output_dim", 1, WIDTH_MAX),
  };
  KC_ASSERT(vit.patch > 0);
  KC_ASSERT(vit.blocks > 0);
  build->model->vision_layers = vit.blocks;
  add_llama4_blocks(build, &vit);
  add_llama4_ends(build, &vit);
}
