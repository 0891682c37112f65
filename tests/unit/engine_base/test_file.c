/* Whole files: mapped, piped, empty, absent, too large. */
#include "engine/base/file.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/unit/engine_base/expect_abort.h"

enum { NAME_BYTES = 256 };
static const size_t no_limit = (size_t)1 << 30;

struct fixture {
  char folder[NAME_BYTES / 2];
};

static int make_folder(void **state)
{
  struct fixture *fixture = calloc(1, sizeof *fixture);
  assert_non_null(fixture);
  const char *parent = getenv("TMPDIR");
  (void)snprintf(fixture->folder, sizeof fixture->folder, "%.80s/kvcap-file-XXXXXX",
                 parent != NULL ? parent : "/tmp");
  assert_non_null(mkdtemp(fixture->folder));
  *state = fixture;
  return 0;
}

static int remove_folder(void **state)
{
  struct fixture *fixture = *state;
  static const char *const names[] = {"a", "empty", "fifo", "secret"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char name[NAME_BYTES];
    (void)snprintf(name, sizeof name, "%s/%s", fixture->folder, names[i]);
    (void)unlink(name);
  }
  assert_int_equal(rmdir(fixture->folder), 0);
  free(fixture);
  return 0;
}

static void name_of(void **state, const char *base, char name[NAME_BYTES])
{
  const struct fixture *fixture = *state;
  (void)snprintf(name, NAME_BYTES, "%s/%s", fixture->folder, base);
}

static void write_file(const char *name, const char *data, size_t bytes)
{
  FILE *stream = fopen(name, "wb");
  assert_non_null(stream);
  assert_int_equal(fwrite(data, 1, bytes, stream), bytes);
  assert_int_equal(fclose(stream), 0);
}

static void a_regular_file_is_mapped(void **state)
{
  char name[NAME_BYTES];
  struct kc_file file;
  name_of(state, "a", name);
  write_file(name, "one\ntwo\0three", 13);
  assert_int_equal(kc_file_open(&file, name, no_limit, NULL), KC_OK);
  assert_int_equal(file.bytes, 13);
  assert_true(file.mapped);
  assert_memory_equal(file.data, "one\ntwo\0three", 13);
  kc_file_close(&file);
  assert_null(file.data);
  kc_file_close(&file); /* a second time is harmless */
}

static void an_empty_file_is_no_bytes(void **state)
{
  char name[NAME_BYTES];
  struct kc_file file;
  name_of(state, "empty", name);
  write_file(name, "", 0);
  assert_int_equal(kc_file_open(&file, name, no_limit, NULL), KC_OK);
  assert_int_equal(file.bytes, 0);
  assert_null(file.data);
  kc_file_close(&file);
}

static void a_folder_is_made_with_its_parents(void **state)
{
  char name[NAME_BYTES], deep[NAME_BYTES + 16];
  struct kc_diag diag;
  name_of(state, "folder", name);
  snprintf(deep, sizeof deep, "%s/b/c", name);
  assert_int_equal(kc_file_make_folder(deep, &diag), KC_OK);
  assert_int_equal(access(deep, W_OK), 0);
  assert_int_equal(kc_file_make_folder(deep, &diag), KC_OK); /* is there */
  assert_int_equal(rmdir(deep), 0);
  write_file(deep, "x", 1);
  assert_int_equal(kc_file_make_folder(deep, &diag), KC_ERR_FILE);
  assert_non_null(strstr(diag.text, "belongs to a file"));
  snprintf(deep, sizeof deep, "%s/b/c/d", name);
  assert_int_equal(kc_file_make_folder(deep, &diag), KC_ERR_FILE);
  assert_non_null(strstr(diag.text, "cannot be made"));
  snprintf(deep, sizeof deep, "%s/b/c", name);
  unlink(deep);
  snprintf(deep, sizeof deep, "%s/b", name);
  rmdir(deep);
  rmdir(name);
}

/* The kernel says size 0 for its own files, and yet they can be read. */
static void a_file_without_a_size_is_read(void **state)
{
  (void)state;
  struct kc_file file;
  assert_int_equal(kc_file_open(&file, "/proc/self/status", no_limit, NULL), KC_OK);
  assert_true(file.bytes > 5);
  assert_false(file.mapped);
  assert_memory_equal(file.data, "Name:", 5);
  kc_file_close(&file);
}

static void the_limit_is_inclusive(void **state)
{
  char name[NAME_BYTES];
  struct kc_file file;
  struct kc_diag diag;
  name_of(state, "a", name);
  write_file(name, "12345678", 8);
  assert_int_equal(kc_file_open(&file, name, 8, &diag), KC_OK);
  kc_file_close(&file);
  assert_int_equal(kc_file_open(&file, name, 7, &diag), KC_ERR_LIMIT);
  assert_non_null(strstr(diag.text, "larger than 7 bytes"));
  assert_string_equal(diag.path, name);
  assert_null(file.data);
}

struct writer {
  const char *name;
  size_t bytes;
};

static void *write_pattern(void *context)
{
  const struct writer *writer = context;
  FILE *stream = fopen(writer->name, "wb");
  for (size_t i = 0; stream != NULL && i < writer->bytes; i++) (void)fputc((int)(i % 251), stream);
  if (stream != NULL) (void)fclose(stream);
  return NULL;
}

static enum kc_err read_pipe(const char *name, size_t bytes, size_t bytes_max,
                             struct kc_file *file, struct kc_diag *diag)
{
  pthread_t thread;
  struct writer writer = {name, bytes};
  assert_int_equal(pthread_create(&thread, NULL, write_pattern, &writer), 0);
  const enum kc_err err = kc_file_open(file, name, bytes_max, diag);
  assert_int_equal(pthread_join(thread, NULL), 0);
  return err;
}

/* 1,000,003 bytes: the block grows several times and its end is not a power of two. */
static void a_pipe_is_read_to_its_end(void **state)
{
  static const size_t sizes[] = {0, 1, 65535, 65536, 131072, 131073, 1000003};
  char name[NAME_BYTES];
  (void)signal(SIGPIPE, SIG_IGN);
  name_of(state, "fifo", name);
  assert_int_equal(mkfifo(name, 0600), 0);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    struct kc_file file;
    assert_int_equal(read_pipe(name, sizes[i], no_limit, &file, NULL), KC_OK);
    assert_int_equal(file.bytes, sizes[i]);
    for (size_t k = 0; k < sizes[i]; k++) {
      if ((unsigned char)file.data[k] != k % 251) fail_msg("size %zu: byte %zu", sizes[i], k);
    }
    kc_file_close(&file);
  }
}

static void a_pipe_has_the_same_limit(void **state)
{
  char name[NAME_BYTES];
  struct kc_file file;
  struct kc_diag diag;
  name_of(state, "fifo", name);
  assert_int_equal(read_pipe(name, 200000, 200000, &file, &diag), KC_OK);
  kc_file_close(&file);
  assert_int_equal(read_pipe(name, 200001, 200000, &file, &diag), KC_ERR_LIMIT);
  assert_null(file.data);
  assert_int_equal(read_pipe(name, 10, 9, &file, &diag), KC_ERR_LIMIT);
}

/* Standard input may be a regular file of which somebody has read the head already. */
static void dash_is_standard_input_from_where_it_stands(void **state)
{
  char name[NAME_BYTES];
  struct kc_file file;
  name_of(state, "a", name);
  write_file(name, "head\nrest", 9);
  const int saved = dup(STDIN_FILENO);
  const int input = open(name, O_RDONLY);
  assert_true(saved >= 0 && input >= 0);
  assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
  assert_int_equal(lseek(STDIN_FILENO, 5, SEEK_SET), 5);
  const enum kc_err err = kc_file_open(&file, "-", no_limit, NULL);
  assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
  (void)close(saved);
  (void)close(input);
  assert_int_equal(err, KC_OK);
  assert_int_equal(file.bytes, 4);
  assert_memory_equal(file.data, "rest", 4);
  kc_file_close(&file);
}

static void what_is_absent_is_named(void **state)
{
  char name[NAME_BYTES];
  struct kc_file file;
  struct kc_diag diag;
  name_of(state, "absent", name);
  assert_int_equal(kc_file_open(&file, name, no_limit, &diag), KC_ERR_FILE);
  assert_string_equal(diag.path, name);
  assert_string_equal(diag.text, "cannot open this file: No such file or directory; check the name "
                                 "and the permissions");
  assert_int_equal(kc_file_open(&file, "", no_limit, &diag), KC_ERR_FILE);
}

static void a_directory_is_refused(void **state)
{
  const struct fixture *fixture = *state;
  struct kc_file file;
  struct kc_diag diag;
  assert_int_equal(kc_file_open(&file, fixture->folder, no_limit, &diag), KC_ERR_FILE);
  assert_non_null(strstr(diag.text, "directory"));
  assert_null(file.data);
}

static void what_may_not_be_read_is_refused(void **state)
{
  char name[NAME_BYTES];
  struct kc_file file;
  struct kc_diag diag;
  if (geteuid() == 0) skip(); /* root may read everything */
  name_of(state, "secret", name);
  write_file(name, "x", 1);
  assert_int_equal(chmod(name, 0), 0);
  assert_false(kc_file_exists(name));
  assert_int_equal(kc_file_open(&file, name, no_limit, &diag), KC_ERR_FILE);
  assert_non_null(strstr(diag.text, "Permission denied"));
}

static void exists_means_a_readable_regular_file(void **state)
{
  const struct fixture *fixture = *state;
  char name[NAME_BYTES];
  name_of(state, "a", name);
  write_file(name, "x", 1);
  assert_true(kc_file_exists(name));
  assert_false(kc_file_exists(fixture->folder));
  name_of(state, "absent", name);
  assert_false(kc_file_exists(name));
  assert_false(kc_file_exists(""));
}

/* By any spelling; a device is written to by whoever likes. */
static void names_of_one_file_are_told(void **state)
{
  char there[NAME_BYTES], other[NAME_BYTES], absent[NAME_BYTES], dotted[NAME_BYTES];
  name_of(state, "a", there);
  name_of(state, "empty", other);
  name_of(state, "./a", dotted);
  name_of(state, "b", absent);
  write_file(there, "x", 1);
  write_file(other, "", 0);
  assert_true(kc_file_same(there, dotted));
  assert_false(kc_file_same(there, other));
  assert_false(kc_file_same(there, absent));
  assert_int_equal(unlink(other), 0);
  assert_int_equal(link(there, other), 0);
  assert_true(kc_file_same(there, other));
  name_of(state, "./b", dotted);
  assert_true(kc_file_same(absent, dotted)); /* neither is there yet */
  name_of(state, "./c", dotted);
  assert_false(kc_file_same(absent, dotted));
  assert_false(kc_file_same("/nowhere/b", "/nowhere/b"));
  assert_false(kc_file_same("/dev/null", "/dev/null"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_regular_file_is_mapped),
      cmocka_unit_test(an_empty_file_is_no_bytes),
      cmocka_unit_test(a_folder_is_made_with_its_parents),
      cmocka_unit_test(a_file_without_a_size_is_read),
      cmocka_unit_test(the_limit_is_inclusive),
      cmocka_unit_test(a_pipe_is_read_to_its_end),
      cmocka_unit_test(a_pipe_has_the_same_limit),
      cmocka_unit_test(dash_is_standard_input_from_where_it_stands),
      cmocka_unit_test(what_is_absent_is_named),
      cmocka_unit_test(a_directory_is_refused),
      cmocka_unit_test(what_may_not_be_read_is_refused),
      cmocka_unit_test(exists_means_a_readable_regular_file),
      cmocka_unit_test(names_of_one_file_are_told),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
