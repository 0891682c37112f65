/* A line of progress (see progress.h). */
#include "sim/cli/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/check.h"

enum { SHOW_EVERY_MS = 250 };

static int64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void kc_progress_start(struct kc_progress *progress, const char *what)
{
  KC_ASSERT(what != NULL);
  *progress = (struct kc_progress){.on = isatty(STDERR_FILENO) == 1, .what = what,
                                   .start_ms = now_ms()};
}

void kc_progress_show(struct kc_progress *progress, uint64_t done, uint64_t all)
{
  KC_ASSERT(all == 0 || done <= all);
  const int64_t now = now_ms();
  if (!progress->on || now - progress->shown_ms < SHOW_EVERY_MS) return;
  progress->shown_ms = now;
  const double seconds = (double)(now - progress->start_ms) / 1e3;
  const double rate = seconds > 0 ? (double)done / seconds : 0;
  fprintf(stderr, "\r%llu", (unsigned long long)done);
  if (all > 0) fprintf(stderr, " of %llu", (unsigned long long)all);
  fprintf(stderr, " %s", progress->what);
  if (rate > 0) fprintf(stderr, ", %.3g a second", rate);
  if (rate > 0 && all > 0) fprintf(stderr, ", %.0f s left", (double)(all - done) / rate);
  fputs("\033[K", stderr);
  fflush(stderr);
  progress->visible = true;
}

void kc_progress_hide(struct kc_progress *progress)
{
  KC_ASSERT(progress->what != NULL);
  if (progress->visible) fputs("\r\033[K", stderr);
  progress->visible = false;
}

void kc_progress_end(struct kc_progress *progress)
{
  kc_progress_hide(progress);
  KC_ASSERT(!progress->visible);
  progress->on = false;
}
