/* How far a long piece of work is, on a terminal: one line on stderr that overwrites itself. */
#ifndef KC_SIM_CLI_PROGRESS_H
#define KC_SIM_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct kc_progress {
  bool on;             /* stderr is a terminal */
  bool visible;
  const char *what;    /* "points" */
  int64_t start_ms, shown_ms;
};

void kc_progress_start(struct kc_progress *progress, const char *what);
/* Shows the count, the rate and the time left, at most four times a second. `all` 0: nobody knows
 * how much there is to do, and no time left is shown. */
void kc_progress_show(struct kc_progress *progress, uint64_t done, uint64_t all);
/* Takes the line away until it is shown again: before something else is printed. */
void kc_progress_hide(struct kc_progress *progress);
/* Takes the line away for good. */
void kc_progress_end(struct kc_progress *progress);

#endif
