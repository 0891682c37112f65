/* Safetensors: files written by the test, read back; every lie that a header can tell; shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/exec/safetensors.h"
#include "engine/exec/weights.h"

static char folder[] = "st_test_XXXXXX";

static int set_up(void **state)
{
  (void)state;
  return mkdtemp(folder) == NULL ? 1 : 0;
}

static int tear_down(void **state)
{
  char command[64];
  (void)state;
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

static const char *path_of(const char *name)
{
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

/* A file of this header, `length` as its first 8 bytes, and `data_bytes` counting bytes. */
static void write_file(const char *name, const char *header, uint64_t length, size_t data_bytes)
{
  FILE *file = fopen(path_of(name), "wb");
  assert_non_null(file);
  for (int i = 0; i < 8; i++) fputc((int)(length >> (8 * i) & 255), file);
  fputs(header, file);
  for (size_t i = 0; i < data_bytes; i++) fputc((int)(i & 255), file);
  assert_int_equal(fclose(file), 0);
}

static void write_text(const char *name, const char *text)
{
  FILE *file = fopen(path_of(name), "wb");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static void reads_what_is_there(void **state)
{
  (void)state;
  static const char header[] =
      "{\"__metadata__\": {\"format\": \"pt\"},"
      " \"b\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [12, 20]},"
      " \"a\": {\"dtype\": \"BF16\", \"shape\": [2, 3], \"data_offsets\": [0, 12]},"
      " \"empty\": {\"dtype\": \"U8\", \"shape\": [0, 7], \"data_offsets\": [12, 12]}}";
  struct kc_safetensors *files;
  struct kc_diag diag = {0};
  write_file("model.safetensors", header, strlen(header), 20);
  for (int way = 0; way < 2; way++) {
    const char *path = way == 0 ? path_of("model.safetensors") : folder;
    if (kc_safetensors_open(&files, path, &diag) != KC_OK) fail_msg("%s", diag.text);
    size_t count;
    const struct kc_st_tensor *list = kc_safetensors_list(files, &count);
    assert_int_equal(count, 3);
    assert_string_equal(list[0].name, "a");
    assert_string_equal(list[2].name, "empty");
    const struct kc_st_tensor *b = kc_safetensors_find(files, "b");
    assert_non_null(b);
    assert_int_equal(b->type, KC_ST_F32);
    assert_int_equal(b->elements, 2);
    assert_int_equal(b->data[0], 12);
    assert_int_equal(list[0].shape[1], 3);
    assert_null(kc_safetensors_find(files, "c"));
    kc_safetensors_close(files);
  }
}

#define ONE(dtype, shape, begin, end) \
  "{\"t\": {\"dtype\": \"" dtype "\", \"shape\": " shape \
  ", \"data_offsets\": [" begin ", " end "]}}"

/* Header, bytes of data, what the message must say. */
static const struct {
  const char *header;
  size_t data_bytes;
  const char *says;
} lies[] = {
    {ONE("BF16", "[4]", "0", "8"), 6, "outside the file"},
    {ONE("BF16", "[4]", "0", "8"), 10, "belong to no tensor"},
    {ONE("BF16", "[4]", "2", "10"), 10, "behind a hole"},
    {ONE("BF16", "[5]", "0", "8"), 8, "not as long as its shape"},
    {ONE("BF16", "[4]", "8", "0"), 8, "outside the file"},
    {ONE("BF16", "[4]", "-8", "0"), 8, "outside the file"},
    {ONE("BF16", "[4]", "0", "1e3"), 8, "outside the file"},
    {ONE("BF16", "[-4]", "0", "8"), 8, "no shape"},
    {ONE("BF16", "[4.0]", "0", "8"), 8, "no shape"},
    {ONE("BF16", "4", "0", "8"), 8, "no shape"},
    {ONE("BF16", "[4294967296, 4294967296, 2]", "0", "8"), 8, "no shape"},
    {ONE("BF16", "[9223372036854775807]", "0", "8"), 8, "not as long as its shape"},
    {ONE("BF16", "[1,1,1,1,1,1,1,1,4]", "0", "8"), 8, "no shape"},
    {ONE("BF17", "[4]", "0", "8"), 8, "dtype"},
    {"{\"t\": 7}", 8, "not described"},
    {"{\"t\": {\"shape\": [4], \"data_offsets\": [0, 8]}}", 8, "dtype"},
    {"{\"t\": {\"dtype\": \"U8\", \"shape\": [8]}}", 8, "outside the file"},
    {"{\"a\": {\"dtype\": \"U8\", \"shape\": [6], \"data_offsets\": [0, 6]},"
     " \"b\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [4, 8]}}", 8, "overlaps"},
    {"{\"a\": {\"dtype\": \"U8\", \"shape\": [8], \"data_offsets\": [0, 8]},"
     " \"a\": {\"dtype\": \"U8\", \"shape\": [8], \"data_offsets\": [0, 8]}}", 8, "no JSON"},
    {"[]", 8, "no JSON object"},
    {"{}", 0, "holds no tensor"},
    {"{", 0, "no JSON"},
};

static void lies_are_told_apart(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
    struct kc_safetensors *files;
    struct kc_diag diag = {0};
    write_file("lie.safetensors", lies[i].header, strlen(lies[i].header), lies[i].data_bytes);
    const enum kc_err err = kc_safetensors_open(&files, path_of("lie.safetensors"), &diag);
    if (err != KC_ERR_INPUT || strstr(diag.text, lies[i].says) == NULL) {
      fail_msg("case %zu: %d, \"%s\"", i, (int)err, diag.text);
    }
    assert_null(files);
  }
}

static void lengths_are_checked(void **state)
{
  (void)state;
  static const uint64_t lengths[] = {0, 3, 9, 1000, UINT64_MAX, UINT64_C(1) << 63};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    struct kc_safetensors *files;
    struct kc_diag diag = {0};
    write_file("cut.safetensors", "{}", lengths[i], 0);
    assert_int_equal(kc_safetensors_open(&files, path_of("cut.safetensors"), &diag),
                     KC_ERR_INPUT);
  }
  struct kc_safetensors *files;
  struct kc_diag diag = {0};
  write_text("cut.safetensors", "1234567");
  assert_int_equal(kc_safetensors_open(&files, path_of("cut.safetensors"), &diag), KC_ERR_INPUT);
  assert_int_equal(kc_safetensors_open(&files, path_of("none.safetensors"), &diag), KC_ERR_FILE);
}

static enum kc_err open_index(const char *text, struct kc_safetensors **files,
                              struct kc_diag *diag)
{
  write_text("model.safetensors.index.json", text);
  *diag = (struct kc_diag){0};
  return kc_safetensors_open(files, path_of("model.safetensors.index.json"), diag);
}

static void shards_follow_the_index(void **state)
{
  (void)state;
  static const char one[] =
      "{\"x\": {\"dtype\": \"U8\", \"shape\": [3], \"data_offsets\": [0, 3]}}";
  static const char two[] =
      "{\"y\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [0, 4]}}";
  struct kc_safetensors *files;
  struct kc_diag diag;
  write_file("one.safetensors", one, strlen(one), 3);
  write_file("two.safetensors", two, strlen(two), 4);
  if (open_index("{\"weight_map\": {\"x\": \"one.safetensors\", \"y\": \"two.safetensors\"}}",
                 &files, &diag) != KC_OK) {
    fail_msg("%s", diag.text);
  }
  assert_int_equal(kc_safetensors_find(files, "y")->bytes, 4);
  assert_int_equal(kc_safetensors_find(files, "x")->bytes, 3);
  kc_safetensors_close(files);
  static const struct {
    const char *index, *says;
    enum kc_err err;
  } bad[] = {
      {"{\"weight_map\": {\"x\": \"two.safetensors\"}}", "does not hold it", KC_ERR_INPUT},
      {"{\"weight_map\": {\"x\": \"../one.safetensors\"}}", "beside it", KC_ERR_INPUT},
      {"{\"weight_map\": {\"x\": 3}}", "beside it", KC_ERR_INPUT},
      {"{\"weight_map\": {}}", "maps no tensor", KC_ERR_INPUT},
      {"{\"weight\": {}}", "no \"weight_map\"", KC_ERR_INPUT},
      {"nonsense", "no \"weight_map\"", KC_ERR_INPUT},
      {"{\"weight_map\": {\"x\": \"three.safetensors\"}}", "three.safetensors, which is not there",
       KC_ERR_FILE},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    const enum kc_err err = open_index(bad[i].index, &files, &diag);
    if (err != bad[i].err || strstr(diag.text, bad[i].says) == NULL) {
      fail_msg("case %zu: %d, \"%s\"", i, (int)err, diag.text);
    }
  }
}

/* The source: types converted, shapes compared, packed weights found. The file's bytes
 * count up, so codes and scales are known. */
static void the_source_converts(void **state)
{
  (void)state;
  static const char header[] =
      "{\"p.weight_packed\": {\"dtype\": \"I32\", \"shape\": [8, 4], \"data_offsets\": [0, 128]},"
      " \"p.weight_scale\": {\"dtype\": \"BF16\", \"shape\": [8, 1], \"data_offsets\": [128, 144]},"
      " \"h.weight\": {\"dtype\": \"F16\", \"shape\": [1, 4], \"data_offsets\": [144, 152]}}";
  struct kc_safetensors *files;
  struct kc_diag diag = {0};
  uint16_t out[256];
  uint8_t codes[128];
  uint16_t scales[8];
  bool found;
  write_file("packed.safetensors", header, strlen(header), 152);
  assert_int_equal(kc_safetensors_open(&files, path_of("packed.safetensors"), &diag), KC_OK);
  struct kc_file_source file_source = {.files = files};
  const struct kc_weight_source source = kc_safetensors_source(&file_source);
  assert_int_equal(source.read_int4(source.context, "p.weight", 8, 32, 32, codes, scales, &found,
                                    &diag), KC_OK);
  assert_true(found);
  assert_int_equal(codes[0], 0);    /* byte 0 of the file */
  assert_int_equal(codes[77], 77);  /* the packing's order is the canonical one */
  assert_int_equal(scales[1], 0x8382);
  assert_int_equal(source.read_int4(source.context, "p.weight", 8, 32, 64, codes, scales, &found,
                                    &diag), KC_OK);
  assert_false(found); /* another group: left to read, which unpacks */
  assert_int_equal(source.read(source.context, "p.weight", 8, 32, out, &diag), KC_OK);
  assert_int_equal(file_source.unpacked, 1);
  assert_int_equal(source.read(source.context, "h.weight", 1, 4, out, &diag), KC_OK);
  assert_int_equal(file_source.rounded, 3); /* 0x9190 happens to have 7 bits of mantissa */
  assert_int_equal(source.read(source.context, "h.weight", 2, 2, out, &diag), KC_ERR_INPUT);
  assert_non_null(strstr(diag.text, "2 x 2"));
  assert_int_equal(source.read(source.context, "q.weight", 2, 2, out, &diag), KC_ERR_INPUT);
  assert_non_null(strstr(diag.text, "q.weight"));
  assert_int_equal(source.read(source.context, "p.weight", 16, 32, out, &diag), KC_ERR_INPUT);
  kc_safetensors_close(files);
}

enum way { AS_BF16, AS_F32, AS_INT4 };

/* What the source says of tensor `name` of the file, 8 x 32 or 256 in a row. */
static enum kc_err read_as(enum way way, const char *name, struct kc_diag *diag)
{
  struct kc_safetensors *files;
  uint16_t out[256], scales[8];
  uint8_t codes[128];
  float vector[256];
  bool found;
  enum kc_err err;
  assert_int_equal(kc_safetensors_open(&files, path_of("number.safetensors"), diag), KC_OK);
  struct kc_file_source of = {.files = files};
  const struct kc_weight_source s = kc_safetensors_source(&of);
  switch (way) {
    case AS_F32: err = s.read_f32(s.context, name, 256, vector, diag); break;
    case AS_INT4:
      err = s.read_int4(s.context, name, 8, 32, 32, codes, scales, &found, diag);
      break;
    default: err = s.read(s.context, name, 8, 32, out, diag);
  }
  kc_safetensors_close(files);
  return err;
}

#define TENSOR(name, dtype, shape, begin, end) \
  "\"" name "\": {\"dtype\": \"" dtype "\", \"shape\": " shape \
  ", \"data_offsets\": [" begin ", " end "]}"
#define FP8 \
  "{" TENSOR("t.weight", "F8_E4M3", "[8, 32]", "4", "260") ", " \
  TENSOR("t.weight_scale_inv", "F32", "[1, 1]", "0", "4") "}"
#define PACKED \
  "{" TENSOR("t.weight_packed", "I32", "[8, 4]", "0", "128") ", " \
  TENSOR("t.weight_scale", "BF16", "[8, 1]", "128", "144") "}"

/* Every way in. The file's bytes are 0 but for `number`, `size` bytes of it at `at`. */
static const struct {
  const char *header, *name;
  size_t data_bytes, at, size;
  uint32_t number;
  enum way way;
} numbers[] = {
    {ONE("BF16", "[8, 32]", "0", "512"), "t", 512, 510, 2, 0x7FC0, AS_BF16},
    {ONE("BF16", "[8, 32]", "0", "512"), "t", 512, 0, 2, 0xFF80, AS_BF16},
    {ONE("F16", "[8, 32]", "0", "512"), "t", 512, 64, 2, 0x7C00, AS_BF16},
    {ONE("F32", "[8, 32]", "0", "1024"), "t", 1024, 1020, 4, 0x7F800001, AS_BF16},
    {ONE("F32", "[8, 32]", "0", "1024"), "t", 1024, 0, 4, 0x7F7FFFFF, AS_BF16}, /* rounds to one */
    {ONE("F32", "[256]", "0", "1024"), "t", 1024, 1020, 4, 0xFFC00000, AS_F32},
    {FP8, "t.weight", 260, 4, 1, 0x7F, AS_BF16},
    {FP8, "t.weight", 260, 0, 4, 0x7F800000, AS_BF16},
    {PACKED, "t.weight", 144, 142, 2, 0x7F80, AS_BF16},
    {PACKED, "t.weight", 144, 142, 2, 0x7F80, AS_INT4},
};

static void what_is_not_finite_is_refused(void **state)
{
  (void)state;
  for (size_t i = 0; i < 2 * (sizeof numbers / sizeof numbers[0]); i++) {
    const size_t n = i / 2;
    const bool bad = i % 2 == 1; /* else there are zeros alone */
    struct kc_diag diag = {0};
    write_file("number.safetensors", numbers[n].header, strlen(numbers[n].header), 0);
    FILE *file = fopen(path_of("number.safetensors"), "ab");
    assert_non_null(file);
    for (size_t b = 0; b < numbers[n].data_bytes; b++) {
      const bool here = bad && b >= numbers[n].at && b < numbers[n].at + numbers[n].size;
      fputc(here ? (int)(numbers[n].number >> (8 * (b - numbers[n].at)) & 255) : 0, file);
    }
    assert_int_equal(fclose(file), 0);
    const enum kc_err err = read_as(numbers[n].way, numbers[n].name, &diag);
    const bool named = strstr(diag.text, "tensor \"t") != NULL;
    if (err != (bad ? KC_ERR_INPUT : KC_OK) || named != bad) {
      fail_msg("case %zu: %d, \"%s\"", i, (int)err, diag.text);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_what_is_there),     cmocka_unit_test(lies_are_told_apart),
      cmocka_unit_test(lengths_are_checked),     cmocka_unit_test(shards_follow_the_index),
      cmocka_unit_test(the_source_converts),     cmocka_unit_test(what_is_not_finite_is_refused),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
