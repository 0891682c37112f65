/* See bench_csv.h. */
#include "sim/cli/bench_csv.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "sim/calibrate/timing_rows.h"

/* ---- everything ---- */

static void write_all_row(const struct kc_bench_csv *csv, const struct kc_bench_row *r, FILE *file)
{
  const struct kc_bench_shape *s = &r->shape;
  const uint64_t part[] = {s->m, s->n, s->k, s->batch, s->tokens, s->context, s->heads,
                           s->kv_heads, s->head_dim, s->hidden, s->inter, s->topk, s->experts,
                           s->tp, s->entries};
  const double rate = r->cold_us > 0 ? r->bytes / r->cold_us : 0;
  KC_ASSERT(r->operation != NULL && r->format != NULL);
  fprintf(file, "%s,%s", r->operation, r->format);
  for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
    fprintf(file, ",%llu", (unsigned long long)part[i]);
  }
  fprintf(file, ",%.3f,%.3f,%.0f,%.0f,%.3f,%.4f,%.4f,%d,\"%s\",%d,%s\n", r->cold_us, r->warm_us,
          r->bytes, r->flops, 1e-3 * rate, csv->ceiling > 0 ? rate / csv->ceiling : 0,
          r->cold_us > 0 ? 1e-6 * r->flops / r->cold_us : 0, (int)r->status, csv->device,
          csv->emulated, csv->utc);
}

static void write_all(const struct kc_bench_csv *csv, FILE *file)
{
  fputs("operation,format,m,n,k,batch,tokens,context,heads,kv_heads,head_dim,hidden,inter,topk,"
        "experts,tp,entries,cold_us,warm_us,bytes,flops,gb_per_s,ceiling_share,tflop_per_s,status,"
        "device,emulated,measured_utc\n", file);
  KC_ASSERT(csv->rows == 0 || csv->row != NULL);
  for (size_t i = 0; i < csv->rows; i++) write_all_row(csv, &csv->row[i], file);
}

/* ---- what calibration reads ---- */

typedef void (*write_row)(const struct kc_bench_row *row, FILE *file);

static void write_gemm(const struct kc_bench_row *r, FILE *file)
{
  fprintf(file, "%s,%llu,%llu,%llu", r->format, (unsigned long long)r->shape.m,
          (unsigned long long)r->shape.n, (unsigned long long)r->shape.k);
}

/* isl new tokens behind `step` others. */
static void write_attention(const struct kc_bench_row *r, FILE *file)
{
  const struct kc_bench_shape *s = &r->shape;
  KC_ASSERT(s->context >= s->tokens);
  fprintf(file, "%s,%llu,%llu,%llu,%llu,%llu,%llu,0", r->format, (unsigned long long)s->batch,
          (unsigned long long)s->tokens, (unsigned long long)(s->context - s->tokens),
          (unsigned long long)s->heads, (unsigned long long)s->kv_heads,
          (unsigned long long)s->head_dim);
}

/* An FP8 cache is read into F16 products, whatever the cache's format. */
static void write_chunks(const struct kc_bench_row *r, FILE *file)
{
  KC_ASSERT(r->shape.tokens > 0);
  write_attention(r, file);
  fputs(",bfloat16", file);
}

static void write_latent(const struct kc_bench_row *r, FILE *file)
{
  const struct kc_bench_shape *s = &r->shape;
  KC_ASSERT(s->context >= s->tokens);
  fprintf(file, "%s,%llu,%llu,%llu,%llu", r->format, (unsigned long long)s->batch,
          (unsigned long long)s->tokens, (unsigned long long)(s->context - s->tokens),
          (unsigned long long)s->heads);
}

static void write_moe(const struct kc_bench_row *r, FILE *file)
{
  const struct kc_bench_shape *s = &r->shape;
  const bool int4 = strncmp(r->format, "int4", 4) == 0;
  fprintf(file, "%s,%llu,%llu,%llu,%llu,%llu,%llu,1,balanced", int4 ? "int4_wo" : r->format,
          (unsigned long long)s->tokens, (unsigned long long)s->hidden,
          (unsigned long long)s->inter, (unsigned long long)s->topk,
          (unsigned long long)s->experts, (unsigned long long)s->tp);
}

#define ATTENTION_HEADER "kv_cache_dtype,batch_size,isl,step,num_heads,num_key_value_heads," \
                         "head_dim,window_size"

static const struct {
  const char *operation, *header;
  write_row write;
} files[] = {
    {"gemm", "gemm_dtype,m,n,k", write_gemm},
    {"generation_attention", ATTENTION_HEADER, write_attention},
    {"context_attention", ATTENTION_HEADER ",attn_dtype", write_chunks},
    {"generation_mla", "kv_cache_dtype,batch_size,isl,step,num_heads", write_latent},
    {"moe", "moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,"
            "distribution", write_moe},
};

/* Weight-only dense products have no family of their own there. */
static bool belongs(const struct kc_bench_row *row, const char *operation)
{
  const bool dense = strcmp(row->operation, "gemm") == 0;
  KC_ASSERT(operation != NULL);
  if (row->status != KC_OP_OK || strcmp(row->operation, operation) != 0) return false;
  return !dense || strncmp(row->format, "int4", 4) != 0;
}

static bool any(const struct kc_bench_csv *csv, const char *operation)
{
  size_t i = 0;
  while (i < csv->rows && !belongs(&csv->row[i], operation)) i++;
  KC_ASSERT(i <= csv->rows);
  return i < csv->rows;
}

static void write_family(const struct kc_bench_csv *csv, size_t which, FILE *file)
{
  KC_ASSERT(which < sizeof files / sizeof files[0]);
  fprintf(file, "%s,kernel_source,latency_ms\n", files[which].header);
  for (size_t i = 0; i < csv->rows; i++) {
    if (!belongs(&csv->row[i], files[which].operation)) continue;
    files[which].write(&csv->row[i], file);
    fprintf(file, ",%s,%.6f\n", csv->emulated ? KC_KERNEL_EMULATED : "kvcap",
            csv->row[i].cold_us / 1000);
  }
}

/* ---- files ---- */

static enum kc_err write_file(const struct kc_bench_csv *csv, const char *folder, const char *name,
                              size_t which, struct kc_diag *diag)
{
  char path[KC_DIAG_PATH_BYTES];
  const int length = snprintf(path, sizeof path, "%s/%s.csv", folder, name);
  KC_ASSERT(length > 0);
  if ((size_t)length >= sizeof path) {
    return kc_fail(diag, KC_ERR_LIMIT, "the name of the folder is too long");
  }
  FILE *file;
  KC_TRY(kc_file_create(&file, path, diag));
  if (which < sizeof files / sizeof files[0]) write_family(csv, which, file);
  else write_all(csv, file);
  return kc_file_finish(file, path, diag);
}

enum kc_err kc_bench_csv_write(const struct kc_bench_csv *csv, const char *folder,
                               struct kc_diag *diag)
{
  const size_t count = sizeof files / sizeof files[0];
  KC_ASSERT(folder != NULL);
  KC_TRY(kc_file_make_folder(folder, diag));
  for (size_t i = 0; i < count; i++) {
    if (!any(csv, files[i].operation)) continue;
    KC_TRY(write_file(csv, folder, files[i].operation, i, diag));
  }
  return write_file(csv, folder, "bench", count, diag);
}
