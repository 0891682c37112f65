/* What the tests of the session and log readers share: parse a literal under a file name, look at
 * the optional columns of a row, and check tables of messages. */
#ifndef KC_TESTS_READER_TEXT_H
#define KC_TESTS_READER_TEXT_H

#include "traces/trace.h"

/* Expected optional columns of a row; links are row numbers after sorting. */
struct reader_link {
  uint32_t session, after;
  kc_ps wait_ps;
};

/* Rows with zero output are floored to 1, so that fixtures may hold failures. Prints the message
 * and fails the test when the text is refused. */
void reader_parse(struct kc_trace *trace, const char *text);

/* Asserts session, after and wait of row `index`. */
void assert_link(const struct kc_trace *trace, uint64_t index, struct reader_link expected);

/* Asserts the flags of row `index`. */
void assert_flags(const struct kc_trace *trace, uint64_t index, unsigned flags);

/* Asserts the prefix ids of row `index`: `count` of them, given as dense ids. */
void assert_blocks(const struct kc_trace *trace, uint64_t index, const uint32_t *ids,
                   uint32_t count);

/* Name of the kind of row `index`. */
const char *kind_of(const struct kc_trace *trace, uint64_t index);

/* A broken text and the exact message, "t.json:line:column: sentence". */
struct reader_message {
  const char *text, *message;
};

/* Every text of the table must be refused with KC_ERR_INPUT and its message, also in CR LF. */
void check_messages(const char *format, const struct reader_message *table, size_t count);

/* Blocks of the trace whose leading run was seen before in the same order of rows: what a cache
 * without end would hit. A plain set of (id) per trace, because ids are interned by scope. */
uint64_t reusable_blocks(const struct kc_trace *trace);

/* Loads KVCAP_SHARED/traces/<name>; fails the test with the message when it cannot be read. */
void load_public(struct kc_trace *trace, const char *name);

/* False when KVCAP_SHARED or its traces folder is absent. */
bool public_traces_exist(void);

#endif
