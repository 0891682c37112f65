/* Makes traces/samples/conversation.csv, the shipped synthetic conversation trace. */
#ifndef KC_TESTS_SAMPLE_GENERATOR_H
#define KC_TESTS_SAMPLE_GENERATOR_H

#include <stddef.h>

enum { SAMPLE_ROWS = 5000, SAMPLE_BYTES_MAX = SAMPLE_ROWS * 48 + 64 };

/* Writes the CSV text into out[0, SAMPLE_BYTES_MAX) and returns its length. Always the same
 * bytes. */
size_t sample_generate(char *out);

#endif
