/* See bench_samples.h. A subject reads "gemm bfloat16 m=8 n=4096 k=4096": operation, format, shape,
 * as cmd_engine_bench.c writes it.
 */
#include "sim/cli/bench_samples.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/store/store.h"

bool kc_bench_is_database(const char *path)
{
  const size_t length = strlen(path);
  KC_ASSERT(path != NULL);
  return length > 3 && strcmp(path + length - 3, ".db") == 0;
}

static const struct {
  const char *operation, *format;
  enum kc_family family;
} families[] = {
    {"gemm", "bfloat16", KC_FAMILY_GEMM_BF16},
    {"gemm", "fp8", KC_FAMILY_GEMM_FP8},
    {"generation_attention", "bfloat16", KC_FAMILY_GQA_DECODE_BF16},
    {"generation_attention", "fp8", KC_FAMILY_GQA_DECODE_FP8},
    {"context_attention", "bfloat16", KC_FAMILY_GQA_PREFILL_BF16},
    {"context_attention", "fp8", KC_FAMILY_GQA_PREFILL_KV8},
    {"generation_mla", "bfloat16", KC_FAMILY_MLA_DECODE_BF16},
    {"generation_mla", "fp8", KC_FAMILY_MLA_DECODE_FP8},
    {"moe", "bfloat16", KC_FAMILY_MOE_BF16},
    {"moe", "int4_g32", KC_FAMILY_MOE_INT4},
};

static const struct {
  const char *key;
  size_t offset; /* of the double in struct kc_shape */
} fields[] = {
    {"m", offsetof(struct kc_shape, m)},           {"n", offsetof(struct kc_shape, n)},
    {"k", offsetof(struct kc_shape, k)},           {"batch", offsetof(struct kc_shape, batch)},
    {"tokens", offsetof(struct kc_shape, tokens)}, {"context", offsetof(struct kc_shape, context)},
    {"heads", offsetof(struct kc_shape, heads)},   {"kv", offsetof(struct kc_shape, kv_heads)},
    {"dim", offsetof(struct kc_shape, head_dim)},  {"hidden", offsetof(struct kc_shape, hidden)},
    {"inter", offsetof(struct kc_shape, inter)},   {"topk", offsetof(struct kc_shape, topk)},
    {"experts", offsetof(struct kc_shape, experts)}, {"tp", offsetof(struct kc_shape, tp)},
};

/* The next word of a subject: *length of it, and where the text goes on. */
static const char *next_word(const char *text, size_t *length)
{
  *length = strcspn(text, " ");
  KC_ASSERT(text != NULL);
  const char *rest = text + *length;
  return *rest == ' ' ? rest + 1 : rest;
}

static bool is_word(const char *text, size_t length, const char *word)
{
  return strlen(word) == length && memcmp(text, word, length) == 0;
}

/* "m=8" into its field. False: no such field, or no number. */
static bool read_field(const char *text, size_t length, struct kc_shape *shape)
{
  const char *equals = memchr(text, '=', length);
  double value = 0;
  if (equals == NULL) return false;
  const size_t key = (size_t)(equals - text);
  KC_ASSERT(key < length);
  if (!kc_parse_double(equals + 1, length - key - 1, &value) || !(value > 0)) return false;
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    if (!is_word(text, key, fields[i].key)) continue;
    memcpy((char *)shape + fields[i].offset, &value, sizeof value);
    return true;
  }
  return false;
}

/* False for operations without a family, and for what this program did not write. */
static bool read_subject(const char *subject, struct kc_sample *sample)
{
  size_t operation, format, length;
  const char *second = next_word(subject, &operation);
  const char *at = next_word(second, &format);
  size_t f = 0;
  while (f < sizeof families / sizeof families[0] &&
         !(is_word(subject, operation, families[f].operation) &&
           is_word(second, format, families[f].format))) {
    f++;
  }
  if (f == sizeof families / sizeof families[0]) return false;
  KC_ASSERT(families[f].operation != NULL);
  sample->family = families[f].family;
  sample->shape = (struct kc_shape){.ep = 1};
  while (*at != '\0') {
    const char *field = at;
    at = next_word(at, &length);
    if (!read_field(field, length, &sample->shape)) return false;
  }
  return true;
}

struct reading {
  struct kc_samples *samples;
  struct kc_diag *diag;
};

static enum kc_err visit(void *context, const struct kc_measurement *m)
{
  struct reading *reading = context;
  struct kc_sample sample = {.us = m->value};
  KC_ASSERT(m->kind != NULL && m->subject != NULL);
  if (strcmp(m->kind, "bench") != 0 || strcmp(m->metric, "cold") != 0) return KC_OK;
  if (!(m->value > 0) || !read_subject(m->subject, &sample)) return KC_OK;
  return kc_samples_add(reading->samples, &sample, m->emulated ? KC_KERNEL_EMULATED : "kvcap",
                        reading->diag);
}

enum kc_err kc_bench_samples_read(struct kc_samples *samples, const char *path,
                                  struct kc_diag *diag)
{
  struct kc_store *store = NULL;
  struct reading reading = {.samples = samples, .diag = diag};
  const size_t before = samples->count + samples->emulated;
  KC_TRY(kc_store_open_read(&store, path, diag));
  const enum kc_err err = kc_store_each_measurement(store, visit, &reading, diag);
  kc_store_close(store);
  KC_TRY(err);
  KC_ASSERT(samples->count + samples->emulated >= before);
  if (samples->count + samples->emulated > before) return KC_OK;
  return kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0, "holds no kernel times; `kvcap engine bench "
                    "--db` writes them");
}
