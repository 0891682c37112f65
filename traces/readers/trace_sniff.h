/* Recognises, from its first bytes, a file that is not a trace we can read. */
#ifndef KC_TRACES_READERS_TRACE_SNIFF_H
#define KC_TRACES_READERS_TRACE_SNIFF_H

#include <stdbool.h>
#include <stddef.h>

/* What the bytes are and what to do instead, as a sentence: "a git-lfs pointer, not the data: ...".
 * NULL when nothing is recognised. Looks at the first 512 bytes. */
const char *kc_trace_sniff(const char *data, size_t bytes);

/* True for the two bytes that open a gzip file (RFC 1952). */
bool kc_trace_is_gzip(const char *data, size_t bytes);

#endif
