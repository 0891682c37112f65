/* The event queue nobody can get wrong: a list in order of arrival, searched from end to end. */
#ifndef KC_TESTS_PROP_SIM_EVENTS_NAIVE_QUEUE_H
#define KC_TESTS_PROP_SIM_EVENTS_NAIVE_QUEUE_H

#include "sim/events/events.h"

enum { NAIVE_CAPACITY = 256 };

struct naive_item {
  kc_ps time_ps;
  enum kc_band band;
  uint32_t kind, subject;
};

struct naive_queue {
  uint32_t count;
  struct naive_item item[NAIVE_CAPACITY]; /* in order of arrival */
};

void naive_push(struct naive_queue *queue, struct naive_item item);
/* The first of the least (time, band); count > 0. */
struct naive_item naive_pop(struct naive_queue *queue);

#endif
