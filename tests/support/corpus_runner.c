/* Runs a fuzz target over every file of a corpus folder: the plain-CTest face of the fuzzers, for
 * builds without libFuzzer. Exit 0 when all inputs returned; a crash ends the process itself. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_BYTES_MAX = 1 << 20 };

static int run_file(const char *path)
{
  static uint8_t buffer[INPUT_BYTES_MAX];
  FILE *file = fopen(path, "rb");
  if (file == NULL) return 0;
  const size_t size = fread(buffer, 1, sizeof buffer, file);
  fclose(file);
  (void)LLVMFuzzerTestOneInput(buffer, size);
  return 1;
}

int main(int argc, char **argv)
{
  if (argc != 2) {
    fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
    return 2;
  }
  DIR *folder = opendir(argv[1]);
  if (folder == NULL) {
    fprintf(stderr, "%s: cannot be opened as a folder\n", argv[1]);
    return 4;
  }
  int inputs = LLVMFuzzerTestOneInput((const uint8_t *)"", 0) == 0;
  for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    char path[4096];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
    inputs += run_file(path);
  }
  closedir(folder);
  printf("%d inputs run\n", inputs);
  return inputs > 1 ? 0 : 1; /* an empty corpus tests nothing */
}
