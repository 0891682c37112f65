/* Opening safetensors files (see the header for their picture).
 *
 *   file[0..file_count)       mappings, owned
 *   tensor[0..tensor_count)   sorted by name when all files are read; names and paths owned
 *
 * Headers are JSON of any order; a second sort by place finds overlaps and holes. Set-up code.
 */
#include "engine/exec/safetensors.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/check.h"
#include "engine/base/file.h"

enum { FILES_MAX = 4096, TENSORS_MAX = 1 << 20, HEADER_BYTES_MAX = 100 << 20 };

struct shard {
  struct kc_file file;
  char path[KC_DIAG_PATH_BYTES];
  const unsigned char *data; /* behind the header */
  uint64_t data_bytes;
};

struct kc_safetensors {
  struct shard *shard[FILES_MAX];
  size_t shard_count;
  struct kc_st_tensor *tensor;
  size_t tensor_count, tensor_capacity;
};

static const struct {
  const char *name;
  enum kc_st_type type;
  uint64_t bytes;
} types[] = {
    {"BF16", KC_ST_BF16, 2},   {"F16", KC_ST_F16, 2},        {"F32", KC_ST_F32, 4},
    {"F8_E4M3", KC_ST_F8_E4M3, 1}, {"I32", KC_ST_I32, 4},    {"I64", KC_ST_I64, 8},
    {"U8", KC_ST_U8, 1},       {"F64", KC_ST_OTHER, 8},      {"I8", KC_ST_OTHER, 1},
    {"I16", KC_ST_OTHER, 2},   {"U16", KC_ST_OTHER, 2},      {"U32", KC_ST_OTHER, 4},
    {"U64", KC_ST_OTHER, 8},   {"BOOL", KC_ST_OTHER, 1},     {"F8_E5M2", KC_ST_OTHER, 1},
    {"F8_E8M0", KC_ST_OTHER, 1},
};

static enum kc_err fail_tensor(struct kc_diag *diag, const struct shard *shard, const char *name,
                               const char *what)
{
  KC_ASSERT(shard != NULL);
  KC_ASSERT(what != NULL);
  return kc_fail_at(diag, KC_ERR_INPUT, shard->path, 0, 0, "tensor \"%.120s\" %s", name, what);
}

/* ---- one tensor of a header ---- */

static bool read_type(const json_t *entry, struct kc_st_tensor *tensor, uint64_t *element_bytes)
{
  const char *name = json_string_value(json_object_get(entry, "dtype"));
  KC_ASSERT(tensor != NULL);
  for (size_t i = 0; name != NULL && i < sizeof types / sizeof *types; i++) {
    if (strcmp(types[i].name, name) != 0) continue;
    tensor->type = types[i].type;
    *element_bytes = types[i].bytes;
    return true;
  }
  return false;
}

static bool read_shape(const json_t *entry, struct kc_st_tensor *tensor)
{
  const json_t *shape = json_object_get(entry, "shape");
  KC_ASSERT(tensor != NULL);
  if (!json_is_array(shape) || json_array_size(shape) > KC_ST_DIMS_MAX) return false;
  tensor->dims = (uint32_t)json_array_size(shape);
  tensor->elements = 1;
  for (uint32_t i = 0; i < tensor->dims; i++) {
    const json_t *dim = json_array_get(shape, i);
    if (!json_is_integer(dim) || json_integer_value(dim) < 0) return false;
    tensor->shape[i] = (uint64_t)json_integer_value(dim);
    if (__builtin_mul_overflow(tensor->elements, tensor->shape[i], &tensor->elements)) return false;
  }
  return true;
}

static bool read_place(const json_t *entry, const struct shard *shard, struct kc_st_tensor *tensor)
{
  const json_t *offsets = json_object_get(entry, "data_offsets");
  KC_ASSERT(tensor != NULL);
  if (!json_is_array(offsets) || json_array_size(offsets) != 2) return false;
  const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
  if (!json_is_integer(first) || !json_is_integer(last)) return false;
  const json_int_t begin = json_integer_value(first), end = json_integer_value(last);
  if (begin < 0 || end < begin || (uint64_t)end > shard->data_bytes) return false;
  tensor->data = shard->data + begin;
  tensor->bytes = (uint64_t)(end - begin);
  return true;
}

static enum kc_err add_tensor(struct kc_safetensors *files, const struct shard *shard,
                              const char *name, const json_t *entry, struct kc_diag *diag)
{
  struct kc_st_tensor tensor = {.path = shard->path};
  uint64_t element_bytes = 0, bytes = 0;
  KC_ASSERT(name != NULL);
  if (!json_is_object(entry)) return fail_tensor(diag, shard, name, "is not described");
  if (!read_type(entry, &tensor, &element_bytes)) {
    return fail_tensor(diag, shard, name, "has a dtype that safetensors does not have");
  }
  if (!read_shape(entry, &tensor)) {
    return fail_tensor(diag, shard, name, "has no shape of at most 8 sizes, 0 or more each");
  }
  if (!read_place(entry, shard, &tensor)) {
    return fail_tensor(diag, shard, name, "lies outside the file: data_offsets are wrong, or the "
                                          "file was cut; download it again");
  }
  if (__builtin_mul_overflow(tensor.elements, element_bytes, &bytes) || bytes != tensor.bytes) {
    return fail_tensor(diag, shard, name, "is not as long as its shape says");
  }
  if (files->tensor_count == files->tensor_capacity) {
    const size_t capacity = files->tensor_capacity == 0 ? 1024 : 2 * files->tensor_capacity;
    struct kc_st_tensor *grown =
        capacity > TENSORS_MAX ? NULL : realloc(files->tensor, capacity * sizeof *grown);
    if (grown == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the list of tensors");
    files->tensor = grown;
    files->tensor_capacity = capacity;
  }
  tensor.name = strdup(name);
  if (tensor.name == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for names of tensors");
  files->tensor[files->tensor_count++] = tensor;
  return KC_OK;
}

/* ---- one file ---- */

static int by_place(const void *a, const void *b)
{
  const struct kc_st_tensor *x = a, *y = b;
  if (x->data != y->data) return x->data < y->data ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The tensors from `first` on are those of `shard`: back to back, without holes. */
static enum kc_err check_places(struct kc_safetensors *files, const struct shard *shard,
                                size_t first, struct kc_diag *diag)
{
  const unsigned char *at = shard->data;
  KC_ASSERT(first <= files->tensor_count);
  if (files->tensor_count == first) return KC_OK;
  qsort(files->tensor + first, files->tensor_count - first, sizeof *files->tensor, by_place);
  for (size_t i = first; i < files->tensor_count; i++) {
    const struct kc_st_tensor *tensor = &files->tensor[i];
    if (tensor->data < at) return fail_tensor(diag, shard, tensor->name, "overlaps another one");
    if (tensor->data > at) return fail_tensor(diag, shard, tensor->name, "lies behind a hole");
    at = tensor->data + tensor->bytes;
  }
  if (at == shard->data + shard->data_bytes) return KC_OK;
  return kc_fail_at(diag, KC_ERR_INPUT, shard->path, 0, 0,
                    "has %llu bytes that belong to no tensor",
                    (unsigned long long)(shard->data + shard->data_bytes - at));
}

/* The header's bytes, checked against the file's length. */
static enum kc_err find_header(struct shard *shard, uint64_t *length, struct kc_diag *diag)
{
  const size_t bytes = shard->file.bytes;
  *length = 0;
  KC_ASSERT(diag == NULL || shard->path[0] != '\0');
  for (size_t i = 0; bytes >= 8 && i < 8; i++) {
    *length |= (uint64_t)(unsigned char)shard->file.data[i] << (8 * i);
  }
  if (bytes < 8 || *length > bytes - 8 || *length > HEADER_BYTES_MAX) {
    return kc_fail_at(diag, KC_ERR_INPUT, shard->path, 0, 0,
                      "is not a safetensors file: its first 8 bytes are not the length of a header "
                      "inside it");
  }
  shard->data = (const unsigned char *)shard->file.data + 8 + *length;
  shard->data_bytes = bytes - 8 - *length;
  return KC_OK;
}

static enum kc_err read_header(struct kc_safetensors *files, struct shard *shard,
                               struct kc_diag *diag)
{
  uint64_t length;
  json_error_t error;
  KC_TRY(find_header(shard, &length, diag));
  json_t *root = json_loadb(shard->file.data + 8, length, JSON_REJECT_DUPLICATES, &error);
  if (!json_is_object(root)) {
    json_decref(root);
    return kc_fail_at(diag, KC_ERR_INPUT, shard->path, 0, 0,
                      "is not a safetensors file: its header is no JSON object");
  }
  const size_t first = files->tensor_count;
  enum kc_err err = KC_OK;
  const char *name;
  json_t *entry;
  json_object_foreach(root, name, entry) {
    if (strcmp(name, "__metadata__") == 0) continue;
    err = add_tensor(files, shard, name, entry, diag);
    if (err != KC_OK) break;
  }
  json_decref(root);
  KC_TRY(err);
  return check_places(files, shard, first, diag);
}

static enum kc_err open_shard(struct kc_safetensors *files, const char *path,
                              struct kc_diag *diag)
{
  KC_ASSERT(path != NULL);
  if (files->shard_count == FILES_MAX) {
    return kc_fail_at(diag, KC_ERR_LIMIT, path, 0, 0, "is one file more than the 4,096 allowed");
  }
  struct shard *shard = calloc(1, sizeof *shard);
  if (shard == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the list of files");
  const int length = snprintf(shard->path, sizeof shard->path, "%s", path);
  const bool fits = length >= 0 && (size_t)length < sizeof shard->path;
  const enum kc_err err =
      fits ? kc_file_open(&shard->file, path, SIZE_MAX - 1, diag)
           : kc_fail_at(diag, KC_ERR_FILE, path, 0, 0, "has too long a path");
  if (err != KC_OK) {
    free(shard);
    return err;
  }
  files->shard[files->shard_count++] = shard;
  return read_header(files, shard, diag);
}

/* ---- an index ---- */

static bool have_shard(const struct kc_safetensors *files, const char *path)
{
  KC_ASSERT(path != NULL);
  for (size_t i = 0; i < files->shard_count; i++) {
    if (strcmp(files->shard[i]->path, path) == 0) return true;
  }
  return false;
}

/* "folder of `path`/name" in out; false when it is too long. */
static bool beside(char *out, size_t size, const char *path, const char *name)
{
  const char *slash = strrchr(path, '/');
  const int folder = slash == NULL ? 0 : (int)(slash - path + 1);
  KC_ASSERT(size > 0);
  const int length = snprintf(out, size, "%.*s%s", folder, path, name);
  return length >= 0 && (size_t)length < size;
}

/* Opens the shards that the map names; a shard's name must stay in the index's folder. */
static enum kc_err open_mapped(struct kc_safetensors *files, const char *path, json_t *map,
                               struct kc_diag *diag)
{
  const char *name;
  json_t *value;
  char shard[KC_DIAG_PATH_BYTES];
  if (!json_is_object(map)) {
    return kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0, "has no \"weight_map\" object");
  }
  json_object_foreach(map, name, value) {
    const char *file = json_string_value(value);
    if (file == NULL || strchr(file, '/') != NULL || !beside(shard, sizeof shard, path, file)) {
      return kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0,
                        "maps \"%.120s\" to something that is not the name of a file beside it",
                        name);
    }
    if (have_shard(files, shard)) continue;
    if (!kc_file_exists(shard)) {
      return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0,
                        "maps \"%.120s\" to %.80s, which is not there or cannot be read: download "
                        "every shard", name, file);
    }
    KC_TRY(open_shard(files, shard, diag));
  }
  return KC_OK;
}

static int by_name(const void *a, const void *b)
{
  const struct kc_st_tensor *x = a, *y = b;
  return strcmp(x->name, y->name);
}

/* Every mapped tensor is in the shard that the map says. */
static enum kc_err check_map(const struct kc_safetensors *files, const char *path, json_t *map,
                             struct kc_diag *diag)
{
  const char *name;
  json_t *value;
  KC_ASSERT(json_is_object(map));
  json_object_foreach(map, name, value) {
    char shard[KC_DIAG_PATH_BYTES];
    const struct kc_st_tensor *tensor = kc_safetensors_find(files, name);
    (void)beside(shard, sizeof shard, path, json_string_value(value));
    if (tensor != NULL && strcmp(tensor->path, shard) == 0) continue;
    return kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0,
                      "maps \"%.120s\" to %.80s, which does not hold it", name,
                      json_string_value(value));
  }
  return KC_OK;
}

static enum kc_err sort_names(struct kc_safetensors *files, struct kc_diag *diag)
{
  KC_ASSERT(files->shard_count > 0);
  if (files->tensor_count == 0) {
    return kc_fail_at(diag, KC_ERR_INPUT, files->shard[0]->path, 0, 0, "holds no tensor");
  }
  qsort(files->tensor, files->tensor_count, sizeof *files->tensor, by_name);
  for (size_t i = 1; i < files->tensor_count; i++) {
    if (strcmp(files->tensor[i - 1].name, files->tensor[i].name) != 0) continue;
    return kc_fail_at(diag, KC_ERR_INPUT, files->tensor[i].path, 0, 0,
                      "and %.120s both hold tensor \"%.120s\"", files->tensor[i - 1].path,
                      files->tensor[i].name);
  }
  return KC_OK;
}

static enum kc_err open_index(struct kc_safetensors *files, const char *path,
                              struct kc_diag *diag)
{
  struct kc_file file;
  json_error_t error;
  KC_TRY(kc_file_open(&file, path, HEADER_BYTES_MAX, diag));
  json_t *root = json_loadb(file.data, file.bytes, JSON_REJECT_DUPLICATES, &error);
  kc_file_close(&file);
  json_t *map = json_object_get(root, "weight_map");
  enum kc_err err = open_mapped(files, path, map, diag);
  if (err == KC_OK && files->shard_count == 0) {
    err = kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0, "maps no tensor");
  }
  if (err == KC_OK) err = sort_names(files, diag);
  if (err == KC_OK) err = check_map(files, path, map, diag);
  json_decref(root);
  return err;
}

/* ---- opening ---- */

static enum kc_err open_folder(struct kc_safetensors *files, const char *path,
                               struct kc_diag *diag)
{
  char inside[KC_DIAG_PATH_BYTES];
  int length = snprintf(inside, sizeof inside, "%s/model.safetensors.index.json", path);
  KC_ASSERT(path != NULL);
  if (length < 0 || (size_t)length >= sizeof inside) {
    return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0, "has too long a path");
  }
  if (kc_file_exists(inside)) return open_index(files, inside, diag);
  (void)snprintf(inside, sizeof inside, "%s/model.safetensors", path);
  if (!kc_file_exists(inside)) {
    return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0,
                      "holds neither model.safetensors nor model.safetensors.index.json");
  }
  KC_TRY(open_shard(files, inside, diag));
  return sort_names(files, diag);
}

static enum kc_err open_any(struct kc_safetensors *files, const char *path, struct kc_diag *diag)
{
  struct stat info;
  const size_t length = strlen(path);
  KC_ASSERT(files->shard_count == 0);
  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return open_folder(files, path, diag);
  if (length > 5 && strcmp(path + length - 5, ".json") == 0) return open_index(files, path, diag);
  KC_TRY(open_shard(files, path, diag));
  return sort_names(files, diag);
}

enum kc_err kc_safetensors_open(struct kc_safetensors **out, const char *path,
                                struct kc_diag *diag)
{
  KC_ASSERT(out != NULL);
  KC_ASSERT(path != NULL);
  *out = NULL;
  struct kc_safetensors *files = calloc(1, sizeof *files);
  if (files == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the weights' index");
  const enum kc_err err = open_any(files, path, diag);
  if (err == KC_OK) {
    *out = files;
  } else {
    kc_safetensors_close(files);
  }
  return err;
}

void kc_safetensors_close(struct kc_safetensors *files)
{
  if (files == NULL) return;
  for (size_t i = 0; i < files->tensor_count; i++) free((char *)(uintptr_t)files->tensor[i].name);
  for (size_t i = 0; i < files->shard_count; i++) {
    kc_file_close(&files->shard[i]->file);
    free(files->shard[i]);
  }
  free(files->tensor);
  free(files);
}

const struct kc_st_tensor *kc_safetensors_find(const struct kc_safetensors *files,
                                               const char *name)
{
  const struct kc_st_tensor key = {.name = name};
  KC_ASSERT(files != NULL);
  KC_ASSERT(name != NULL);
  return bsearch(&key, files->tensor, files->tensor_count, sizeof key, by_name);
}

const struct kc_st_tensor *kc_safetensors_list(const struct kc_safetensors *files, size_t *count)
{
  KC_ASSERT(files != NULL);
  KC_ASSERT(count != NULL);
  *count = files->tensor_count;
  return files->tensor;
}
