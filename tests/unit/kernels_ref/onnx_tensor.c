/* A reader for the few fields of TensorProto that node vectors use.
 *
 *   message TensorProto { repeated int64 dims = 1; int32 data_type = 2; ... bytes raw_data = 9; }
 *
 * A field is a varint (number << 3 | wire type), then a varint (type 0) or length and bytes (2).
 * Element types: 1 float, 6 int32, 7 int64, 11 double, all little endian in raw_data.
 */
#include "onnx_tensor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char folder[] = "/usr/share/libonnx-testdata/data/node";

bool onnx_installed(void)
{
  return access(folder, R_OK) == 0;
}

struct cursor {
  const uint8_t *at, *end;
};

static uint64_t varint(struct cursor *c)
{
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (c->at >= c->end) fail_msg("a varint runs past the end");
    const uint8_t byte = *c->at++;
    value |= (uint64_t)(byte & 127u) << shift;
    if (byte < 128) return value;
  }
  fail_msg("a varint of more than 64 bits");
  return 0;
}

static struct cursor bytes(struct cursor *c)
{
  const uint64_t length = varint(c);
  if (length > (uint64_t)(c->end - c->at)) fail_msg("a field runs past the end");
  const struct cursor field = {c->at, c->at + length};
  c->at += length;
  return field;
}

static void add_dim(struct onnx_tensor *tensor, uint64_t dim)
{
  assert_true(tensor->dim_count < ONNX_DIMS_MAX && dim <= ONNX_ELEMENTS_MAX);
  tensor->dims[tensor->dim_count++] = (uint32_t)dim;
}

static double element(const uint8_t *from, uint64_t type)
{
  float f32;
  double f64;
  int32_t i32;
  int64_t i64;
  switch (type) {
    case 1: memcpy(&f32, from, sizeof f32); return (double)f32;
    case 6: memcpy(&i32, from, sizeof i32); return (double)i32;
    case 7: memcpy(&i64, from, sizeof i64); return (double)i64;
    default: memcpy(&f64, from, sizeof f64); return f64;
  }
}

static void parse(struct onnx_tensor *tensor, struct cursor c)
{
  uint64_t type = 0;
  struct cursor raw = {NULL, NULL};
  memset(tensor, 0, sizeof *tensor);
  while (c.at < c.end) {
    const uint64_t key = varint(&c);
    if (key == (1 << 3 | 0)) {
      add_dim(tensor, varint(&c));
    } else if (key == (1 << 3 | 2)) {
      for (struct cursor dims = bytes(&c); dims.at < dims.end;) add_dim(tensor, varint(&dims));
    } else if (key == (2 << 3 | 0)) {
      type = varint(&c);
    } else if (key == (9 << 3 | 2)) {
      raw = bytes(&c);
    } else if ((key & 7) == 2) {
      (void)bytes(&c);
    } else {
      assert_int_equal(key & 7, 0);
      (void)varint(&c);
    }
  }
  assert_true(type == 1 || type == 6 || type == 7 || type == 11);
  const size_t size = type == 1 || type == 6 ? 4 : 8;
  tensor->count = (uint32_t)((size_t)(raw.end - raw.at) / size);
  assert_in_range(tensor->count, 1, ONNX_ELEMENTS_MAX);
  for (uint32_t i = 0; i < tensor->count; ++i) tensor->value[i] = element(raw.at + i * size, type);
}

void onnx_read(struct onnx_tensor *tensor, const char *node, const char *file)
{
  static uint8_t buffer[8 * ONNX_ELEMENTS_MAX + 256];
  char path[256];
  snprintf(path, sizeof path, "%s/%s/test_data_set_0/%s.pb", folder, node, file);
  FILE *stream = fopen(path, "rb");
  if (stream == NULL) {
    fail_msg("%s cannot be opened", path);
    return;
  }
  const size_t length = fread(buffer, 1, sizeof buffer, stream);
  fclose(stream);
  parse(tensor, (struct cursor){buffer, buffer + length});
  uint64_t elements = 1;
  for (uint32_t i = 0; i < tensor->dim_count; ++i) elements *= tensor->dims[i];
  assert_int_equal(elements, tensor->count);
}
