/* Files read once for many runs (see inputs.h). Around runs: it may allocate.
 *
 *   entry -> entry -> ...    a list, searched from its head: a sweep reads few files
 *   one mutex for the list and the state of its entries; nobody holds it while a file is read
 */
#include "sim/scenario/inputs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"

enum state { LOADING, LOADED, FAILED };

struct entry {
  struct entry *next;
  char path[KC_DIAG_PATH_BYTES];
  bool is_trace;
  struct kc_trace_options options; /* of a trace */
  enum state state;
  struct kc_trace trace;
  struct kc_profile *kernels;
  struct kc_diag why;              /* FAILED */
};

struct kc_inputs {
  pthread_mutex_t mutex;
  pthread_cond_t changed; /* an entry is no longer LOADING */
  struct entry *first;
};

struct kc_inputs *kc_inputs_create(void)
{
  struct kc_inputs *inputs = calloc(1, sizeof *inputs);
  if (inputs == NULL) return NULL;
  const bool made = pthread_mutex_init(&inputs->mutex, NULL) == 0 &&
                    pthread_cond_init(&inputs->changed, NULL) == 0;
  KC_ASSERT(made);
  KC_ASSERT(inputs->first == NULL);
  return inputs;
}

void kc_inputs_destroy(struct kc_inputs *inputs)
{
  if (inputs == NULL) return;
  struct entry *next;
  for (struct entry *entry = inputs->first; entry != NULL; entry = next) {
    next = entry->next;
    KC_ASSERT(entry->state != LOADING);
    kc_trace_free(&entry->trace);
    kc_profile_destroy(entry->kernels);
    free(entry);
  }
  pthread_cond_destroy(&inputs->changed);
  pthread_mutex_destroy(&inputs->mutex);
  free(inputs);
}

static bool same_options(const struct kc_trace_options *a, const struct kc_trace_options *b)
{
  KC_ASSERT(a != NULL && b != NULL);
  return a->format == b->format && /* NULL or a literal of the readers */
         a->zero_output == b->zero_output && a->rows_max == b->rows_max &&
         a->time_unit == b->time_unit && a->block_tokens == b->block_tokens &&
         a->tail == b->tail && a->failed == b->failed && a->cancelled == b->cancelled &&
         a->missing_output_tokens == b->missing_output_tokens && a->lines == b->lines;
}

/* `options` is NULL for kernels. With the mutex held. */
static struct entry *find(const struct kc_inputs *inputs, const char *path,
                          const struct kc_trace_options *options)
{
  KC_ASSERT(path[0] != '\0');
  for (struct entry *entry = inputs->first; entry != NULL; entry = entry->next) {
    if (strcmp(entry->path, path) != 0 || entry->is_trace != (options != NULL)) continue;
    if (options == NULL || same_options(&entry->options, options)) return entry;
  }
  return NULL;
}

/* Reads the file of an entry that is LOADING, without the mutex. */
static enum state load(struct entry *entry)
{
  KC_ASSERT(entry->state == LOADING);
  const enum kc_err err =
      entry->is_trace ? kc_trace_load(&entry->trace, entry->path, &entry->options, &entry->why)
                      : kc_profile_load(&entry->kernels, entry->path, &entry->why);
  return err == KC_OK ? LOADED : FAILED;
}

/* A new entry at the head, LOADING. With the mutex held; NULL when memory ran out. */
static struct entry *add(struct kc_inputs *inputs, const char *path,
                         const struct kc_trace_options *options)
{
  struct entry *entry = calloc(1, sizeof *entry);
  const size_t length = strlen(path);
  KC_ASSERT(length < sizeof entry->path);
  if (entry == NULL) return NULL;
  memcpy(entry->path, path, length + 1);
  entry->is_trace = options != NULL;
  if (options != NULL) entry->options = *options;
  entry->next = inputs->first;
  inputs->first = entry;
  return entry;
}

/* The entry of a file, read. */
static enum kc_err get(struct kc_inputs *inputs, const char *path,
                       const struct kc_trace_options *options, const struct entry **out,
                       struct kc_diag *diag)
{
  KC_ASSERT(inputs != NULL && path != NULL);
  pthread_mutex_lock(&inputs->mutex);
  struct entry *entry = find(inputs, path, options);
  if (entry == NULL && (entry = add(inputs, path, options)) != NULL) {
    pthread_mutex_unlock(&inputs->mutex);
    const enum state state = load(entry);
    pthread_mutex_lock(&inputs->mutex);
    entry->state = state;
    pthread_cond_broadcast(&inputs->changed);
  }
  while (entry != NULL && entry->state == LOADING) {
    pthread_cond_wait(&inputs->changed, &inputs->mutex);
  }
  pthread_mutex_unlock(&inputs->mutex);
  if (entry == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory to read %s", path);
  *out = entry;
  if (entry->state == LOADED) return KC_OK;
  if (diag != NULL) *diag = entry->why;
  return entry->why.code;
}

enum kc_err kc_inputs_trace(struct kc_inputs *inputs, const char *path,
                            const struct kc_trace_options *options, const struct kc_trace **trace,
                            struct kc_diag *diag)
{
  const struct entry *entry;
  KC_ASSERT(options != NULL && trace != NULL);
  KC_TRY(get(inputs, path, options, &entry, diag));
  *trace = &entry->trace;
  return KC_OK;
}

enum kc_err kc_inputs_kernels(struct kc_inputs *inputs, const char *path,
                              const struct kc_profile **kernels, struct kc_diag *diag)
{
  const struct entry *entry;
  KC_ASSERT(kernels != NULL);
  KC_TRY(get(inputs, path, NULL, &entry, diag));
  *kernels = entry->kernels;
  return KC_OK;
}
