/* Preconditions of the operations.
 *
 * One place decides whether a struct keeps the contract, so that ref, emu and cuda refuse the same
 * calls. Only sizes, strides, alignment and the presence of pointers are looked at: arrays may be
 * in device memory.
 */
#include "kernels/ops/op_check.h"

static bool aligned(const void *pointer)
{
  return pointer != NULL && ((uintptr_t)pointer & 15u) == 0;
}

/* A [rows][width] array with this stride: rows do not overlap and start at 16 bytes. */
static bool rows_valid(const void *data, uint64_t stride, uint64_t width)
{
  return aligned(data) && stride >= width && stride % 8 == 0;
}

/* ---- sizes ---- */

uint64_t kc_mla_record_bytes(const struct kc_kv_layer *layer)
{
  const uint64_t bf16 = 2ull * (layer->latent + layer->rope);
  if (layer->k_format == KC_KV_BF16) return bf16;
  const uint64_t bytes = layer->latent + 4ull * (layer->latent / 128) + 2ull * layer->rope;
  return (bytes + 15) / 16 * 16;
}

static uint64_t tile_bytes(const struct kc_kv_layer *layer, enum kc_kv_format format)
{
  const uint64_t element = format == KC_KV_BF16 ? 2 : 1;
  return element * layer->kv_heads * layer->page_tokens * layer->head_dim;
}

uint64_t kc_kv_page_bytes_k(const struct kc_kv_layer *layer)
{
  if (layer->kind == KC_PAGED_MLA) return kc_mla_record_bytes(layer) * layer->page_tokens;
  return tile_bytes(layer, layer->k_format);
}

uint64_t kc_kv_page_bytes_v(const struct kc_kv_layer *layer)
{
  return layer->kind == KC_PAGED_MLA ? 0 : tile_bytes(layer, layer->v_format);
}

uint32_t kc_kv_query_dim(const struct kc_kv_layer *layer)
{
  return layer->kind == KC_PAGED_MLA ? layer->latent + layer->rope : layer->head_dim;
}

uint32_t kc_kv_value_dim(const struct kc_kv_layer *layer)
{
  return layer->kind == KC_PAGED_MLA ? layer->latent : layer->head_dim;
}

uint32_t kc_int4_group(enum kc_weight_format format)
{
  switch (format) {
    case KC_WEIGHT_INT4_G32: return 32;
    case KC_WEIGHT_INT4_G64: return 64;
    case KC_WEIGHT_INT4_G128: return 128;
    default: return 0;
  }
}

/* ---- shared parts ---- */

bool kc_weight_valid(const struct kc_weight *weight)
{
  if (weight->rows == 0 || weight->cols == 0 || weight->cols % 32 != 0) return false;
  if (!aligned(weight->data)) return false;
  const uint32_t group = kc_int4_group(weight->format);
  if (group != 0) return weight->cols % group == 0 && weight->scale_bf16 != NULL;
  switch (weight->format) {
    case KC_WEIGHT_BF16: return true;
    case KC_WEIGHT_FP8:
    case KC_WEIGHT_FP8_BLOCK: return weight->scale_f32 != NULL;
    case KC_WEIGHT_MXFP4: return weight->scale_u8 != NULL;
    case KC_WEIGHT_NVFP4: return weight->scale_u8 != NULL && weight->scale_f32 != NULL;
    default: return false;
  }
}

static bool mla_layer_valid(const struct kc_kv_layer *layer)
{
  const bool fp8 = layer->k_format == KC_KV_FP8_G128;
  if (!fp8 && layer->k_format != KC_KV_BF16) return false;
  if (layer->latent == 0 || layer->latent % (fp8 ? 128 : 16) != 0) return false;
  if (layer->rope == 0 || layer->rope % 16 != 0) return false;
  return layer->kv_heads == 1;
}

static bool gqa_layer_valid(const struct kc_kv_layer *layer)
{
  const bool k_known = layer->k_format == KC_KV_BF16 || layer->k_format == KC_KV_FP8_E4M3;
  const bool v_known = layer->v_format == KC_KV_BF16 || layer->v_format == KC_KV_FP8_E4M3;
  if (!k_known || !v_known) return false;
  if (layer->kv_heads == 0 || layer->head_dim == 0 || layer->head_dim % 16 != 0) return false;
  return aligned(layer->v) && layer->v_page_bytes % 16 == 0 &&
         layer->v_page_bytes >= kc_kv_page_bytes_v(layer);
}

bool kc_kv_layer_valid(const struct kc_kv_layer *layer)
{
  if (layer->pages == 0 || layer->page_tokens == 0) return false;
  if (!aligned(layer->k) || layer->k_page_bytes % 16 != 0) return false;
  const bool mla = layer->kind == KC_PAGED_MLA;
  if (mla ? !mla_layer_valid(layer) : !gqa_layer_valid(layer)) return false;
  return layer->k_page_bytes >= kc_kv_page_bytes_k(layer);
}

static bool table_valid(const struct kc_page_table *table)
{
  return table->entry != NULL && ((uintptr_t)table->entry & 7u) == 0 && table->slots > 0 &&
         table->stride > 0;
}

/* With tags: everything else is there too. */
static bool integrity_valid(const struct kc_tag_state *integrity)
{
  if (integrity->tag == NULL) return true;
  if (integrity->verdict == NULL || integrity->counter == NULL) return false;
  return integrity->ring_capacity == 0 || integrity->ring != NULL;
}

/* ---- operations on rows ---- */

bool kc_op_gather_valid(const struct kc_op_gather *op)
{
  if (op->width == 0 || op->width % 8 != 0) return false;
  if (op->rows == 0) return true;
  return rows_valid(op->source, op->source_stride, op->width) && op->index != NULL &&
         rows_valid(op->out, op->out_stride, op->width);
}

bool kc_op_rms_norm_valid(const struct kc_op_rms_norm *op)
{
  if (op->width == 0 || op->width % 8 != 0 || !(op->epsilon >= 0.0f)) return false;
  if (op->rows == 0) return true;
  if (op->residual != NULL && !rows_valid(op->residual, op->residual_stride, op->width)) {
    return false;
  }
  if (op->weight != NULL && !aligned(op->weight)) return false;
  const bool heads = op->heads > 1;
  if (heads && (op->residual != NULL || op->head_stride % 8 != 0 || op->head_stride < op->width)) {
    return false;
  }
  const uint64_t row = heads ? (op->heads - 1) * op->head_stride + op->width : op->width;
  return rows_valid(op->x, op->x_stride, row) && rows_valid(op->out, op->out_stride, row);
}

bool kc_op_rope_valid(const struct kc_op_rope *op)
{
  if (op->heads == 0 || op->dims == 0 || op->head_dim % 8 != 0 || op->dims % 8 != 0) return false;
  if (op->offset % 8 != 0 || op->offset > op->head_dim) return false;
  if (op->dims > op->head_dim - op->offset) return false;
  if (op->pairs != KC_ROPE_HALF && op->pairs != KC_ROPE_INTERLEAVED) return false;
  if (op->rows == 0) return true;
  return op->position != NULL && op->high != NULL && op->low != NULL &&
         rows_valid(op->x, op->x_stride, (uint64_t)op->heads * op->head_dim);
}

bool kc_op_gemm_valid(const struct kc_op_gemm *op)
{
  if (!kc_weight_valid(&op->weight)) return false;
  const bool e4m3 = op->x_type == KC_DTYPE_E4M3;
  if (!e4m3 && op->x_type != KC_DTYPE_BF16) return false;
  if (e4m3 != (op->x_scale != NULL)) return false;
  if (e4m3 && op->weight.format != KC_WEIGHT_FP8) return false;
  if (e4m3 && op->x_stride % 16 != 0) return false;
  if (op->out_type != KC_DTYPE_BF16 && op->out_type != KC_DTYPE_F32) return false;
  if (op->rows == 0) return true;
  return rows_valid(op->x, op->x_stride, op->weight.cols) &&
         rows_valid(op->out, op->out_stride, op->weight.rows);
}

bool kc_op_head_gemm_valid(const struct kc_op_head_gemm *op)
{
  if (op->heads == 0 || op->n == 0 || op->k == 0 || op->n % 16 != 0 || op->k % 16 != 0) {
    return false;
  }
  if (op->x_head_stride < op->k || op->x_head_stride % 8 != 0) return false;
  if (op->out_head_stride < op->n || op->out_head_stride % 8 != 0) return false;
  if (op->rows == 0) return true;
  const uint64_t x_width = (uint64_t)(op->heads - 1) * op->x_head_stride + op->k;
  const uint64_t out_width = (uint64_t)(op->heads - 1) * op->out_head_stride + op->n;
  return rows_valid(op->x, op->x_stride, x_width) && aligned(op->weight) &&
         rows_valid(op->out, op->out_stride, out_width);
}

bool kc_op_dequantise_valid(const struct kc_op_dequantise *op)
{
  if (op->rows == 0) return true;
  return kc_weight_valid(&op->weight) && aligned(op->out) && op->first % 16 == 0 &&
         (uint64_t)op->first + op->rows <= op->weight.rows;
}

bool kc_op_quantise_rows_valid(const struct kc_op_quantise_rows *op)
{
  if (op->width == 0 || op->width % 16 != 0) return false;
  if (op->rows == 0) return true;
  return rows_valid(op->x, op->x_stride, op->width) && op->scale != NULL &&
         op->out_stride % 16 == 0 && rows_valid(op->out, op->out_stride, op->width);
}

bool kc_op_swiglu_valid(const struct kc_op_swiglu *op)
{
  if (op->width == 0 || op->width % 8 != 0) return false;
  if (op->rows == 0) return true;
  return rows_valid(op->x, op->x_stride, 2ull * op->width) &&
         rows_valid(op->out, op->out_stride, op->width);
}

bool kc_op_sample_valid(const struct kc_op_sample *op)
{
  if (op->vocabulary == 0) return false;
  if (op->rows == 0) return true;
  if (op->verdict != NULL && op->slot == NULL) return false;
  if (op->temperature != NULL && (op->seed == NULL || op->position == NULL)) return false;
  return op->token != NULL && rows_valid(op->logits, op->logits_stride, op->vocabulary);
}

/* ---- operations on pages ---- */

bool kc_op_kv_write_valid(const struct kc_op_kv_write *op)
{
  if (!kc_kv_layer_valid(&op->layer) || !table_valid(&op->table)) return false;
  if (!integrity_valid(&op->integrity)) return false;
  if (op->integrity.tag != NULL && op->integrity.pages > op->layer.pages) return false;
  if (op->rows == 0) return true;
  if (op->slot == NULL || op->position == NULL) return false;
  const bool mla = op->layer.kind == KC_PAGED_MLA;
  const uint64_t width = (uint64_t)op->layer.kv_heads * kc_kv_query_dim(&op->layer);
  return rows_valid(op->k, op->k_stride, width) && (mla || rows_valid(op->v, op->v_stride, width));
}

static bool heads_valid(const struct kc_kv_layer *layer, uint32_t q_heads)
{
  return q_heads > 0 && q_heads % layer->kv_heads == 0;
}

bool kc_op_decode_valid(const struct kc_op_decode *op)
{
  if (!kc_kv_layer_valid(&op->layer) || !table_valid(&op->table)) return false;
  if (!heads_valid(&op->layer, op->q_heads)) return false;
  if (op->rows == 0) return true;
  if (op->slot == NULL || op->context == NULL || op->plan.row_first == NULL) return false;
  if (op->plan.split_count > 0 && op->plan.split == NULL) return false;
  if (op->plan.partial_count > 0 && (!aligned(op->partial_out) || op->partial_lse == NULL)) {
    return false;
  }
  const uint64_t q_width = (uint64_t)op->q_heads * kc_kv_query_dim(&op->layer);
  const uint64_t out_width = (uint64_t)op->q_heads * kc_kv_value_dim(&op->layer);
  return rows_valid(op->q, op->q_stride, q_width) &&
         rows_valid(op->out, op->out_stride, out_width);
}

bool kc_op_prefill_valid(const struct kc_op_prefill *op)
{
  if (!kc_kv_layer_valid(&op->layer) || !table_valid(&op->table)) return false;
  if (!heads_valid(&op->layer, op->q_heads)) return false;
  if (op->chunks == 0) return true;
  if (op->chunk == NULL || op->chunk_host == NULL) return false;
  const uint64_t q_width = (uint64_t)op->q_heads * kc_kv_query_dim(&op->layer);
  const uint64_t out_width = (uint64_t)op->q_heads * kc_kv_value_dim(&op->layer);
  return rows_valid(op->q, op->q_stride, q_width) &&
         rows_valid(op->out, op->out_stride, out_width);
}

bool kc_op_tag_check_valid(const struct kc_op_tag_check *op)
{
  if (!table_valid(&op->table) || op->integrity.tag == NULL) return false;
  if (!integrity_valid(&op->integrity)) return false;
  return op->rows == 0 || (op->slot != NULL && op->entries != NULL);
}

/* ---- mixture of experts ---- */

bool kc_op_route_valid(const struct kc_op_route *op)
{
  if (op->experts == 0 || op->experts > KC_EXPERTS_MAX) return false;
  if (op->top == 0 || op->top > KC_EXPERTS_TOP_MAX) return false;
  if (op->groups == 0 || op->experts % op->groups != 0) return false;
  if (op->groups_top == 0 || op->groups_top > op->groups) return false;
  if (op->top > op->groups_top * (op->experts / op->groups)) return false;
  if (op->rows == 0) return true;
  return op->logits != NULL && op->logits_stride >= op->experts && op->expert != NULL &&
         op->weight != NULL;
}

bool kc_op_moe_sort_valid(const struct kc_op_moe_sort *op)
{
  if (op->experts == 0 || op->experts > KC_EXPERTS_MAX) return false;
  if (op->top == 0 || op->top > KC_EXPERTS_TOP_MAX || op->first == NULL) return false;
  return op->rows == 0 || (op->expert != NULL && op->source != NULL && op->place != NULL);
}

bool kc_op_grouped_gemm_valid(const struct kc_op_grouped_gemm *op)
{
  if (op->experts == 0 || op->experts > KC_EXPERTS_MAX || !kc_weight_valid(&op->weight)) {
    return false;
  }
  if (op->data_stride_bytes % 16 != 0 || op->first == NULL) return false;
  if (op->positions == 0) return true;
  return rows_valid(op->x, op->x_stride, op->weight.cols) &&
         rows_valid(op->out, op->out_stride, op->weight.rows);
}

bool kc_op_moe_combine_valid(const struct kc_op_moe_combine *op)
{
  if (op->width == 0 || op->width % 8 != 0) return false;
  if (op->top == 0 || op->top > KC_EXPERTS_TOP_MAX) return false;
  if (op->rows == 0) return true;
  if (op->place == NULL || op->weight == NULL) return false;
  if (op->base != NULL && !rows_valid(op->base, op->base_stride, op->width)) return false;
  return rows_valid(op->y, op->y_stride, op->width) &&
         rows_valid(op->out, op->out_stride, op->width);
}
