/* Runs a function in a child process and asserts that a KC_ASSERT stops it. */
#ifndef KC_TESTS_UNIT_ENGINE_BASE_EXPECT_ABORT_H
#define KC_TESTS_UNIT_ENGINE_BASE_EXPECT_ABORT_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Reads until the writer is gone; the text is cut to `size` and terminated. */
static inline void read_text(int descriptor, char *text, size_t size)
{
  size_t used = 0;
  ssize_t got = 1;
  while (got > 0 && used + 1 < size) {
    got = read(descriptor, text + used, size - 1 - used);
    if (got > 0) used += (size_t)got;
  }
  text[used] = '\0';
}

/* `part` must occur in what the child says on stderr. Skipped where asserts are compiled out. */
static inline void expect_abort(void (*function)(void *context), void *context, const char *part)
{
#ifdef KC_COVERAGE
  (void)function;
  (void)context;
  (void)part;
  skip();
#else
  int pipe_ends[2];
  assert_int_equal(pipe(pipe_ends), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    const struct rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)dup2(pipe_ends[1], STDERR_FILENO);
    (void)close(pipe_ends[0]);
    function(context);
    _exit(0);
  }
  (void)close(pipe_ends[1]);
  char text[1024];
  read_text(pipe_ends[0], text, sizeof text);
  (void)close(pipe_ends[0]);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || strstr(text, part) == NULL) {
    fail_msg("expected an abort with \"%s\", got status %d and \"%s\"", part, status, text);
  }
#endif
}

#endif
