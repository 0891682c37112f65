/* Weights from safetensors files: one file, or shards with an index.
 *
 *   file    8 bytes: length n of the header, little endian
 *           n bytes: JSON {"name": {"dtype", "shape", "data_offsets": [begin, end)}, ...}
 *           data: the tensors, back to back, in row-major order
 *   index   JSON {"weight_map": {"name": "shard file", ...}}
 *
 * Files are mapped and stay mapped; a tensor's data points into the mapping. Nothing of a header is
 * believed: dtype, shape, length and place of every tensor are checked against the file when it is
 * opened, tensors must not overlap nor leave holes, and names must be unique. (safetensors, format
 * description of the Hugging Face project.)
 */
#ifndef KC_ENGINE_EXEC_SAFETENSORS_H
#define KC_ENGINE_EXEC_SAFETENSORS_H

#include "engine/base/diag.h"

enum kc_st_type {
  KC_ST_BF16,
  KC_ST_F16,
  KC_ST_F32,
  KC_ST_F8_E4M3,
  KC_ST_I32,
  KC_ST_I64,
  KC_ST_U8,
  KC_ST_OTHER /* known to the format, not used here */
};

enum { KC_ST_DIMS_MAX = 8 };

struct kc_st_tensor {
  const char *name;
  enum kc_st_type type;
  uint32_t dims;
  uint64_t shape[KC_ST_DIMS_MAX];
  uint64_t elements;
  const unsigned char *data; /* any alignment */
  uint64_t bytes;
  const char *path; /* of its file */
};

struct kc_safetensors; /* heap */

/* `path`: a .safetensors file, an index (.json), or a folder that holds model.safetensors or
 * model.safetensors.index.json. */
enum kc_err kc_safetensors_open(struct kc_safetensors **out, const char *path,
                                struct kc_diag *diag);
void kc_safetensors_close(struct kc_safetensors *files);

/* NULL when there is none of this name. O(log n). */
const struct kc_st_tensor *kc_safetensors_find(const struct kc_safetensors *files,
                                               const char *name);
/* All tensors, ascending by name. */
const struct kc_st_tensor *kc_safetensors_list(const struct kc_safetensors *files, size_t *count);

#endif
