/* The files of a folder that are traces by their names. */
#ifndef KC_TRACES_READERS_TRACE_FILES_H
#define KC_TRACES_READERS_TRACE_FILES_H

#include "engine/base/diag.h"

struct kc_trace_files {
  char **path;      /* heap, sorted by name in byte order */
  size_t count;
  uint64_t skipped; /* entries left out: other names, folders */
};

bool kc_trace_is_folder(const char *path);

/* *.csv, *.json, *.jsonl, *.ndjson, each also with .gz. Errors: KC_ERR_FILE, also when there are
 * none; KC_ERR_LIMIT; KC_ERR_MEMORY. Free after success only. */
enum kc_err kc_trace_files_list(struct kc_trace_files *files, const char *folder,
                                struct kc_diag *diag);
void kc_trace_files_free(struct kc_trace_files *files);

#endif
