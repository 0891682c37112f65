/* Names joined by commas, for messages and for the list of unused columns. The text belongs to the
 * caller; it is always terminated. */
#include "traces/readers/text_list.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"

static const char dots[] = "...";

void kc_text_list_init(struct kc_text_list *list, char *out, size_t size)
{
  KC_ASSERT(size > 8);
  *list = (struct kc_text_list){out, size, 0, false};
  out[0] = '\0';
}

void kc_text_list_resume(struct kc_text_list *list, char *out, size_t size)
{
  const size_t used = strlen(out);
  KC_ASSERT(used < size);
  const size_t tail = sizeof dots - 1;
  const bool cut = used >= tail && memcmp(out + used - tail, dots, tail) == 0;
  *list = (struct kc_text_list){out, size, used, cut};
}

void kc_text_list_add(struct kc_text_list *list, const char *text, size_t bytes)
{
  enum { CUT_BYTES = 5 }; /* a later ", ..." must still fit */
  const size_t between = list->used > 0 ? 2 : 0;
  const size_t room = list->size - list->used - 1;
  if (list->cut) return;
  if (between + bytes + CUT_BYTES > room) {
    list->cut = true;
    (void)snprintf(list->out + list->used, room + 1, "%s%s", between > 0 ? ", " : "", dots);
    return;
  }
  memcpy(list->out + list->used, ", ", between);
  list->used += between;
  for (size_t i = 0; i < bytes; i++) {
    list->out[list->used++] = text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?';
  }
  list->out[list->used] = '\0';
}
