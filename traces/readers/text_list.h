/* A list of names in a text of bounded length: "a, b, ..." when it is cut. */
#ifndef KC_TRACES_READERS_TEXT_LIST_H
#define KC_TRACES_READERS_TEXT_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct kc_text_list {
  char *out; /* borrowed */
  size_t size, used;
  bool cut;
};

/* Starts empty, or goes on behind the text that is there. size > 8. */
void kc_text_list_init(struct kc_text_list *list, char *out, size_t size);
void kc_text_list_resume(struct kc_text_list *list, char *out, size_t size);

/* Appends "a" or ", a"; control bytes and bytes beyond ASCII become '?'. */
void kc_text_list_add(struct kc_text_list *list, const char *text, size_t bytes);

#endif
