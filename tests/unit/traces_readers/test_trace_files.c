/* Where bytes come from: folders, shards, gzip, several files; and the public Mooncake trace and
 * samples, when they are at hand. kvcache-ai/Mooncake at 3b5a5941. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/digest.h"
#include "text_sink.h"
#include "trace_text.h"

enum { PATH_BYTES = 512 };

struct folder {
  char path[64];
  char file[16][PATH_BYTES];
  unsigned files;
};

static void make_folder(struct folder *folder)
{
  memset(folder, 0, sizeof *folder);
  snprintf(folder->path, sizeof folder->path, "/tmp/kvcap-files-XXXXXX");
  assert_non_null(mkdtemp(folder->path));
}

static const char *add_file(struct folder *folder, const char *name, const char *data, size_t bytes)
{
  char joined[PATH_BYTES];
  snprintf(joined, sizeof joined, "%s/%s", folder->path, name);
  char *const path = folder->file[folder->files++];
  memcpy(path, joined, sizeof joined);
  FILE *const file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
  return path;
}

static const char *add_text(struct folder *folder, const char *name, const char *text)
{
  return add_file(folder, name, text, strlen(text));
}

static void remove_folder(struct folder *folder)
{
  for (unsigned i = 0; i < folder->files; i++) assert_int_equal(unlink(folder->file[i]), 0);
  assert_int_equal(rmdir(folder->path), 0);
}

static enum kc_err load(struct kc_trace *trace, const char *path, struct kc_diag *diag)
{
  struct kc_trace_options options;
  kc_trace_options_default(&options);
  options.missing_output_tokens = 1;
  return kc_trace_load(trace, path, &options, diag);
}

static void load_ok(struct kc_trace *trace, const char *path)
{
  struct kc_diag diag;
  char line[1024];
  if (load(trace, path, &diag) == KC_OK) return;
  kc_diag_print(&diag, line, sizeof line);
  fail_msg("%s", line);
}

#define ROW(t, ids) \
  "{\"timestamp\": " t ", \"input_length\": 1024, \"output_length\": 5, \"hash_ids\": [" ids "]}\n"

/* Shards of one trace: read in the order of their names, sorted by time, one scope of ids. */
static void shards_are_one_trace(void **state)
{
  (void)state;
  struct folder folder;
  struct kc_trace trace, whole;
  size_t packed_bytes;
  static const char second[] = ROW("2000", "0, 1") ROW("4000", "0, 7");
  char *const packed = gzip_bytes(second, sizeof second - 1, &packed_bytes);
  make_folder(&folder);
  add_file(&folder, "part-1.jsonl.gz", packed, packed_bytes);
  add_text(&folder, "part-2.jsonl", ROW("1000", "0, 7") ROW("3000", "9, 7"));
  add_text(&folder, "part-0.ndjson", ROW("5000", "0, 1"));
  add_text(&folder, "README.md", "not a trace\n");
  add_text(&folder, ".part-9.jsonl", "hidden\n");
  load_ok(&trace, folder.path);
  parse_ok(&whole, ROW("5000", "0, 1") ROW("2000", "0, 1") ROW("4000", "0, 7") ROW("1000", "0, 7")
           ROW("3000", "9, 7"));
  assert_same_trace(&trace, &whole);
  assert_int_equal(trace.file_count, 3);
  assert_int_equal(trace.note[KC_NOTE_SKIPPED_FILES], 1);
  assert_int_equal(trace.note[KC_NOTE_GZIP], 1);
  assert_int_equal(trace.note[KC_NOTE_UNCHAINED_IDS], 1);
  assert_string_equal(trace.path, folder.path);
  kc_trace_free(&trace);
  kc_trace_free(&whole);
  free(packed);
  remove_folder(&folder);
}

/* The digest of several files can be made with sha256sum: of its own output, names without
 * folders. */
static void digest_of_several_files(void **state)
{
  (void)state;
  struct folder folder;
  struct kc_trace trace;
  struct kc_sha256 sha;
  char lines[512], hex[KC_SHA256_HEX_BYTES];
  static const char *const text[] = {ROW("0", "1, 2"), ROW("1", "1, 3")};
  size_t used = 0;
  make_folder(&folder);
  for (int i = 0; i < 2; i++) {
    char name[16];
    snprintf(name, sizeof name, "%c.jsonl", 'a' + i);
    add_text(&folder, name, text[i]);
    kc_sha256_init(&sha);
    kc_sha256_update(&sha, text[i], strlen(text[i]));
    kc_sha256_final_hex(&sha, hex);
    used += (size_t)snprintf(lines + used, sizeof lines - used, "%s  %s\n", hex, name);
  }
  kc_sha256_init(&sha);
  kc_sha256_update(&sha, lines, used);
  kc_sha256_final_hex(&sha, hex);
  load_ok(&trace, folder.path);
  assert_string_equal(trace.sha256, hex);
  assert_int_equal(trace.bytes, strlen(text[0]) + strlen(text[1]));
  kc_trace_free(&trace);
  remove_folder(&folder);
}

/* 33: ids and sessions of the program's own files belong to their file. */
static void pitfall_33_local_scopes(void **state)
{
  (void)state;
  struct folder folder;
  struct kc_trace trace;
  static const char text[] = "arrival_ps,input_tokens,output_tokens,session,after,"
                             "prefix_ids_ceil_8\n0,8,1,0,,0\n5,8,1,0,0,0\n";
  make_folder(&folder);
  add_text(&folder, "a.csv", text);
  add_text(&folder, "b.csv", text);
  load_ok(&trace, folder.path);
  assert_int_equal(trace.count, 4);
  assert_int_equal(trace.session_count, 2);
  assert_int_equal(trace.block_distinct, 2);
  static const uint32_t after[] = {KC_TRACE_NONE, KC_TRACE_NONE, 0, 1};
  assert_memory_equal(trace.column.after, after, sizeof after);
  struct kc_trace_reuse reuse;
  assert_int_equal(kc_trace_reuse(&trace, &reuse, NULL), KC_OK);
  assert_int_equal(reuse.blocks_reused, 2); /* three if the two files shared their ids */
  kc_trace_free(&trace);
  remove_folder(&folder);
}

static void errors_name_the_shard(void **state)
{
  (void)state;
  struct folder folder;
  struct kc_trace trace;
  struct kc_diag diag;
  char line[1024], wanted[1024];
  make_folder(&folder);
  assert_int_equal(load(&trace, folder.path, &diag), KC_ERR_FILE);
  assert_string_equal(diag.path, folder.path);
  add_text(&folder, "a.jsonl", ROW("0", "1, 2"));
  const char *const b = add_text(&folder, "b.jsonl", ROW("1", "1, 2") "{\"timestamp\": }\n");
  assert_int_equal(load(&trace, folder.path, &diag), KC_ERR_INPUT);
  kc_diag_print(&diag, line, sizeof line);
  snprintf(wanted, sizeof wanted, "%s:2:15: this is not JSON", b);
  assert_string_equal(line, wanted);
  add_text(&folder, "b.jsonl", "arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,1\n");
  folder.files--; /* the same file again */
  assert_int_equal(load(&trace, folder.path, &diag), KC_ERR_INPUT);
  kc_diag_print(&diag, line, sizeof line);
  snprintf(wanted, sizeof wanted, "%s:1: this file is of format vidur, but the files before it are "
           "of format mooncake; expected one format a trace", b);
  assert_string_equal(line, wanted);
  add_text(&folder, "b.jsonl", "");
  folder.files--;
  assert_int_equal(load(&trace, folder.path, &diag), KC_ERR_INPUT);
  assert_string_equal(diag.path, b);
  remove_folder(&folder);
}

/* 30: one block size a trace; a second file that says another one is refused. */
static void pitfall_30_two_block_sizes(void **state)
{
  (void)state;
  struct folder folder;
  struct kc_trace trace;
  struct kc_diag diag;
  make_folder(&folder);
  add_text(&folder, "a.csv", "input_tokens,output_tokens,prefix_ids_ceil_8\n8,1,0\n");
  add_text(&folder, "b.csv", "input_tokens,output_tokens,prefix_ids_ceil_16\n8,1,0\n");
  assert_int_equal(load(&trace, folder.path, &diag), KC_ERR_INPUT);
  assert_string_equal(diag.path, folder.file[1]);
  assert_string_equal(diag.text, "blocks of 16 tokens (ceil) here, of 8 (ceil) before; expected "
                                 "one block size and tail rule a trace");
  remove_folder(&folder);
}

static void several_paths(void **state)
{
  (void)state;
  struct folder folder;
  struct kc_trace trace;
  struct kc_trace_options options;
  struct kc_diag diag;
  kc_trace_options_default(&options);
  make_folder(&folder);
  const char *const path[] = {add_text(&folder, "z.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                                         "2024-01-01 00:00:05,1,1\n"),
                              add_text(&folder, "a.csv", "GeneratedTokens,ContextTokens,TIMESTAMP\n"
                                                         "2,3,2024-01-01 00:00:02\n")};
  assert_int_equal(kc_trace_load_files(&trace, path, 2, &options, &diag), KC_OK);
  assert_row(&trace, 0, 0, 3, 2);
  assert_row(&trace, 1, 3 * KC_PS_PER_S, 1, 1);
  assert_int_equal(trace.file_count, 2);
  kc_trace_free(&trace);
  assert_int_equal(kc_trace_load_files(&trace, path, 0, &options, &diag), KC_ERR_USAGE);
  remove_folder(&folder);
}

/* A gzip file through a pipe. */
static void standard_input(void **state)
{
  (void)state;
  int ends[2];
  size_t bytes;
  struct kc_trace trace;
  static const char text[] = ROW("0", "1, 2") ROW("1", "1, 3");
  char *const packed = gzip_bytes(text, sizeof text - 1, &bytes);
  const int kept = dup(STDIN_FILENO);
  assert_true(kept >= 0);
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(write(ends[1], packed, bytes), bytes);
  assert_int_equal(close(ends[1]), 0);
  assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
  assert_int_equal(close(ends[0]), 0);
  load_ok(&trace, "-");
  assert_int_equal(dup2(kept, STDIN_FILENO), STDIN_FILENO);
  assert_int_equal(close(kept), 0);
  assert_int_equal(trace.count, 2);
  assert_string_equal(trace.path, "-");
  kc_trace_free(&trace);
  free(packed);
}

/* A JSON document larger than gzip's first window, on one line and on many. */
static void large_documents_in_gzip(void **state)
{
  (void)state;
  enum { IDS = 200000 };
  size_t bytes, used = 0;
  char *const text = malloc((size_t)IDS * 8 + 200);
  struct kc_trace trace;
  struct kc_trace_options options;
  struct kc_diag diag;
  kc_trace_options_default(&options);
  for (int lines = 0; lines < 2; lines++) {
    used = (size_t)snprintf(text, 200, "{\"timestamp\": 1,%s\"input_length\": %d, "
                            "\"output_length\": 1, \"hash_ids\": [", lines ? "\n" : "", IDS * 512);
    for (int i = 0; i < IDS; i++) {
      used += (size_t)snprintf(text + used, 9, "%s%d", i > 0 ? "," : "", i);
    }
    used += (size_t)snprintf(text + used, 4, "]}\n");
    char *const packed = gzip_bytes(text, used, &bytes);
    assert_int_equal(kc_trace_parse(&trace, "t", packed, bytes, &options, &diag), KC_OK);
    assert_int_equal(trace.block_total, IDS);
    assert_int_equal(trace.block_distinct, IDS);
    kc_trace_free(&trace);
    free(packed);
  }
  free(text);
}

#ifdef KC_FAULTS
static void memory_failures_are_errors(void **state)
{
  (void)state;
  static const char text[] =
      "{\"session_id\": \"a\", \"timestamp\": 9, \"input_length\": 600, \"output_length\": 1, "
      "\"hash_ids\": [1, 2]}\n"
      "{\"session_id\": \"a\", \"timestamp\": 5, \"delay\": 1, \"input_length\": 600, "
      "\"output_length\": 1, \"hash_ids\": [3, 2]}\n";
  static const char *const faults[] = {"trace_rows_memory",   "trace_intern_memory",
                                       "trace_blocks_memory", "trace_sessions_memory",
                                       "trace_order_memory",  "trace_sort_memory"};
  struct kc_trace trace;
  struct kc_diag diag;
  struct kc_trace_reuse reuse;
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    setenv("KVCAP_FAULT", faults[i], 1);
    assert_int_equal(parse_text(&trace, text, &diag), KC_ERR_MEMORY);
    assert_non_null(strstr(diag.text, "out of memory: "));
    assert_null(trace.row);
    unsetenv("KVCAP_FAULT");
  }
  parse_ok(&trace, text);
  setenv("KVCAP_FAULT", "trace_reuse_memory", 1);
  assert_int_equal(kc_trace_reuse(&trace, &reuse, &diag), KC_ERR_MEMORY);
  unsetenv("KVCAP_FAULT");
  kc_trace_free(&trace);
}
#endif

/* ---- the public files ---- */

static bool shared_path(char path[PATH_BYTES], const char *name)
{
  const char *const shared = getenv("KVCAP_SHARED");
  if (shared == NULL) return false;
  snprintf(path, PATH_BYTES, "%s/traces/%s", shared, name);
  return access(path, R_OK) == 0;
}

/* As published: 12,031 rows, 105,710 of 288,500 blocks reusable, 182,790 distinct. */
static void mooncake_conversation(void **state)
{
  (void)state;
  char path[PATH_BYTES];
  struct kc_trace trace;
  struct kc_trace_reuse reuse;
  if (!shared_path(path, "mooncake/conversation_trace.jsonl")) skip();
  load_ok(&trace, path);
  assert_int_equal(trace.count, 12031);
  assert_int_equal(trace.block_total, 288500);
  assert_int_equal(trace.block_distinct, 182790);
  assert_int_equal(trace.tail, KC_TAIL_CEIL);
  assert_int_equal(trace.note[KC_NOTE_IDS_MISMATCH] + trace.note[KC_NOTE_IDS_OTHER_TAIL], 0);
  assert_int_equal(trace.note[KC_NOTE_UNCHAINED_IDS], 0);
  assert_int_equal(trace.note[KC_NOTE_TIES], 12031 - 1180);
  assert_int_equal(kc_trace_reuse(&trace, &reuse, NULL), KC_OK);
  assert_int_equal(reuse.blocks_reused, 105710);
  assert_int_equal(reuse.blocks, 288500);
  assert_int_equal(reuse.tokens_reused * 1000 / reuse.tokens, 373); /* 37.36 % */
  assert_round_trip(&trace);
  kc_trace_free(&trace);
}

static void samples(void **state)
{
  (void)state;
  static const struct {
    const char *name, *format;
    uint64_t rows, input_tokens, output_tokens;
    kc_ps span_ps;
  } files[] = {
      {"mooncake_arxiv_slice.jsonl", "mooncake", 14, 57735, 3861, 6109 * KC_PS_PER_MS},
      {"qwen_bailian.example.jsonl", "bailian", 1, 502, 1494, 0},
      {"servegen_offline_trace_a.head.jsonl", "servegen", 5, 1503, 5, 0},
      {"servegen_offline_trace_d.example.jsonl", "servegen", 2, 115, 4401, 0},
  };
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    char path[PATH_BYTES], name[64];
    struct kc_trace trace;
    snprintf(name, sizeof name, "format-samples/%s", files[i].name);
    if (!shared_path(path, name)) skip();
    load_ok(&trace, path);
    assert_string_equal(trace.format, files[i].format);
    assert_int_equal(trace.count, files[i].rows);
    assert_int_equal(trace.input_tokens, files[i].input_tokens);
    assert_int_equal(trace.output_tokens, files[i].output_tokens);
    assert_int_equal(trace.span_ps, files[i].span_ps);
    assert_int_equal(trace.note[KC_NOTE_IDS_MISMATCH], 0);
    assert_round_trip(&trace);
    kc_trace_free(&trace);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shards_are_one_trace),
      cmocka_unit_test(digest_of_several_files),
      cmocka_unit_test(pitfall_33_local_scopes),
      cmocka_unit_test(errors_name_the_shard),
      cmocka_unit_test(pitfall_30_two_block_sizes),
      cmocka_unit_test(several_paths),
      cmocka_unit_test(standard_input),
      cmocka_unit_test(large_documents_in_gzip),
#ifdef KC_FAULTS
      cmocka_unit_test(memory_failures_are_errors),
#endif
      cmocka_unit_test(mooncake_conversation),
      cmocka_unit_test(samples),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
