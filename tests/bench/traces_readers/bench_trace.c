/* Measures trace loading: parse speed with and without the digest, rows a second, bytes of memory.
 *
 *   bench_trace [FILE...]     without arguments: generated traces: Azure, Vidur, Mooncake JSONL
 *
 * Prints one JSON document. Times are of the processor, not of the wall, so that a busy machine
 * does not count; the fastest of many repeats is reported, because noise only adds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/digest.h"
#include "engine/base/random.h"
#include "traces/trace.h"

enum { GENERATED_ROWS = 100000, ROW_BYTES_MAX = 64, REPEATS_MIN = 20 };
#define BENCH_SECONDS_MIN 0.5

static double now_s(void)
{
  struct timespec at;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static size_t azure_row(char *out, uint64_t at_us, struct kc_random *random)
{
  const uint64_t second = at_us / 1000000;
  return (size_t)snprintf(out, ROW_BYTES_MAX, "\r\n2030-01-%02u %02u:%02u:%02u.%06u0,%u,%u",
                          (unsigned)(1 + second / 86400), (unsigned)(second / 3600 % 24),
                          (unsigned)(second / 60 % 60), (unsigned)(second % 60),
                          (unsigned)(at_us % 1000000), (unsigned)kc_random_below(random, 8000),
                          1 + (unsigned)kc_random_below(random, 900));
}

static size_t vidur_row(char *out, uint64_t at_us, struct kc_random *random)
{
  return (size_t)snprintf(out, ROW_BYTES_MAX, "\n%u.%06u,%u,%u", (unsigned)(at_us / 1000000),
                          (unsigned)(at_us % 1000000), (unsigned)kc_random_below(random, 8000),
                          1 + (unsigned)kc_random_below(random, 900));
}

static char *generate(bool azure, size_t *bytes)
{
  struct kc_random random;
  uint64_t at_us = 0;
  char *const text = malloc((size_t)GENERATED_ROWS * ROW_BYTES_MAX + ROW_BYTES_MAX);
  if (text == NULL) exit(8);
  kc_random_init(&random, 1, "bench-trace", 0);
  *bytes = (size_t)snprintf(text, ROW_BYTES_MAX, "%s",
                            azure ? "TIMESTAMP,ContextTokens,GeneratedTokens"
                                  : "arrived_at,num_prefill_tokens,num_decode_tokens");
  for (int i = 0; i < GENERATED_ROWS; i++) {
    at_us += kc_random_exponential(&random, 180000);
    *bytes += azure ? azure_row(text + *bytes, at_us, &random)
                    : vidur_row(text + *bytes, at_us, &random);
  }
  return text;
}

/* Rows like those of Mooncake's conversations: half of a prompt's ids are shared with an earlier
 * one, the rest are the next new ones. */
static char *generate_mooncake(size_t *bytes)
{
  enum { ROWS = 20000, IDS_MAX = 48, ROW_MAX = 128 + IDS_MAX * 10 };
  struct kc_random random;
  unsigned next = 0;
  char *const text = malloc((size_t)ROWS * ROW_MAX);
  if (text == NULL) exit(8);
  kc_random_init(&random, 1, "bench-mooncake", 0);
  *bytes = 0;
  for (int i = 0; i < ROWS; i++) {
    const unsigned ids = 1 + (unsigned)kc_random_below(&random, IDS_MAX);
    *bytes += (size_t)snprintf(text + *bytes, ROW_MAX, "{\"timestamp\": %d, \"input_length\": %u, "
                               "\"output_length\": %u, \"hash_ids\": [", i * 300, ids * 512 - 7,
                               1 + (unsigned)kc_random_below(&random, 900));
    for (unsigned k = 0; k < ids; k++) {
      const unsigned id = k < ids / 2 ? k : next++ + IDS_MAX;
      *bytes += (size_t)snprintf(text + *bytes, 16, "%s%u", k == 0 ? "" : ", ", id);
    }
    *bytes += (size_t)snprintf(text + *bytes, 8, "]}\n");
  }
  return text;
}

struct timing {
  double whole_s, digest_s; /* fastest of each */
};

static double time_parse(const char *name, const char *data, size_t bytes, struct kc_trace *trace)
{
  struct kc_trace_options options;
  struct kc_diag diag;
  kc_trace_options_default(&options);
  options.zero_output = KC_ZERO_OUTPUT_FLOOR;
  const double begin = now_s();
  if (kc_trace_parse(trace, name, data, bytes, &options, &diag) != KC_OK) {
    fprintf(stderr, "%s: %s\n", diag.path, diag.text);
    exit(3);
  }
  return now_s() - begin;
}

static double time_digest(const char *data, size_t bytes)
{
  struct kc_sha256 sha;
  char hex[KC_SHA256_HEX_BYTES];
  const double begin = now_s();
  kc_sha256_init(&sha);
  kc_sha256_update(&sha, data, bytes);
  kc_sha256_final_hex(&sha, hex);
  return now_s() - begin;
}

/* Both in turn, so that a slow spell of the machine meets both. The last trace stays in *trace. */
static struct timing measure(const char *name, const char *data, size_t bytes,
                             struct kc_trace *trace)
{
  struct timing best = {1e9, 1e9};
  const double end = now_s() + BENCH_SECONDS_MIN;
  for (int i = 0; i < REPEATS_MIN || now_s() < end; i++) {
    if (i > 0) kc_trace_free(trace);
    const double whole = time_parse(name, data, bytes, trace);
    const double digest = time_digest(data, bytes);
    if (whole < best.whole_s) best.whole_s = whole;
    if (digest < best.digest_s) best.digest_s = digest;
  }
  return best;
}

static void report(const char *name, const char *data, size_t bytes, bool first)
{
  struct kc_trace trace;
  const struct timing best = measure(name, data, bytes, &trace);
  const double parse_s = best.whole_s - best.digest_s;
  printf("%s\n    {\"name\": \"%s\", \"format\": \"%s\", \"bytes\": %zu, \"rows\": %llu, "
         "\"parse_us\": %.1f, \"parse_mb_s\": %.0f, \"parse_ns_row\": %.1f, \"digest_us\": %.1f, "
         "\"whole_us\": %.1f}",
         first ? "" : ",", name, trace.format, bytes, (unsigned long long)trace.count,
         parse_s * 1e6, (double)bytes / parse_s / 1e6, parse_s * 1e9 / (double)trace.count,
         best.digest_s * 1e6, best.whole_s * 1e6);
  kc_trace_free(&trace);
}

int main(int argc, char **argv)
{
  printf("{\"bench\": \"trace\", \"results\": [");
  for (int i = 1; i < argc; i++) {
    struct kc_file file;
    struct kc_diag diag;
    if (kc_file_open(&file, argv[i], (size_t)1 << 40, &diag) != KC_OK) {
      fprintf(stderr, "%s\n", diag.text);
      return 4;
    }
    report(argv[i], file.data, file.bytes, i == 1);
    kc_file_close(&file);
  }
  for (int azure = 1; azure >= 0 && argc == 1; azure--) {
    size_t bytes;
    char *const text = generate(azure, &bytes);
    report(azure ? "generated-azure" : "generated-vidur", text, bytes, azure);
    free(text);
  }
  if (argc == 1) {
    size_t bytes;
    char *const text = generate_mooncake(&bytes);
    report("generated-mooncake", text, bytes, false);
    free(text);
  }
  printf("\n]}\n");
  return 0;
}
