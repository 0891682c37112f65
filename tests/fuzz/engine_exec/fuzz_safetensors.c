/* Any bytes as a safetensors file: opened or refused with a reason, and what is opened lies inside
 * the file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/exec/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
  if (!condition) abort();
}

static void use_files(const struct kc_safetensors *files, size_t size)
{
  size_t count;
  uint64_t bytes = 0;
  unsigned sum = 0;
  const struct kc_st_tensor *list = kc_safetensors_list(files, &count);
  require(count > 0);
  for (size_t i = 0; i < count; i++) {
    for (uint64_t j = 0; j < list[i].bytes; j++) sum += list[i].data[j];
    bytes += list[i].bytes;
    require(kc_safetensors_find(files, list[i].name) == &list[i]);
    require(i == 0 || strcmp(list[i - 1].name, list[i].name) < 0);
  }
  require(bytes + 8 <= size);
  require(sum <= 255 * bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char path[64];
  struct kc_safetensors *files;
  struct kc_diag diag = {0};
  const int fd = memfd_create("fuzz", 0);
  require(fd >= 0);
  require(size == 0 || write(fd, data, size) == (ssize_t)size);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const enum kc_err err = kc_safetensors_open(&files, path, &diag);
  if (err == KC_OK) {
    use_files(files, size);
  } else {
    require(err == KC_ERR_INPUT);
    require(diag.text[0] != '\0');
  }
  kc_safetensors_close(files);
  close(fd);
  return 0;
}
