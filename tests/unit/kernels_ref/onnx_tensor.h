/* Tensors of ONNX's node test vectors: one TensorProto a file. */
#ifndef KC_TESTS_ONNX_TENSOR_H
#define KC_TESTS_ONNX_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

enum { ONNX_ELEMENTS_MAX = 4096, ONNX_DIMS_MAX = 8 };

struct onnx_tensor {
  uint32_t dims[ONNX_DIMS_MAX], dim_count, count;
  double value[ONNX_ELEMENTS_MAX];
};

/* True when the package with the vectors is installed. */
bool onnx_installed(void);

/* Reads NODE/test_data_set_0/FILE.pb; the test fails when it cannot. */
void onnx_read(struct onnx_tensor *tensor, const char *node, const char *file);

#endif
