/* The parts of `kvcap trace`, one per file, dispatched by cmd_trace.c, and what they share: how a
 * trace is to be read, and what was done to it. Private to sim/cli. */
#ifndef KC_SIM_CLI_CMD_TRACE_H
#define KC_SIM_CLI_CMD_TRACE_H

#include "sim/cli/cli.h"
#include "traces/transform/trace_stats.h"

/* Each returns the exit status of the program. argv[0] is the subcommand's name. */
int kc_cmd_trace_info(int argc, char **argv);
int kc_cmd_trace_lint(int argc, char **argv);
int kc_cmd_trace_convert(int argc, char **argv);
int kc_cmd_trace_anonymise(int argc, char **argv);
int kc_cmd_trace_synth(int argc, char **argv);
int kc_cmd_trace_plot(int argc, char **argv);

/* How to read the input; a field `input` of a command's arguments. CHOICE fields are int. */
struct kc_cli_trace_input {
  char format[16]; /* "auto" */
  int zero_output; /* enum kc_zero_output */
  int time_unit;   /* enum kc_time_unit */
  uint32_t block_tokens, missing_output_tokens;
  int tail;        /* enum kc_tail_rule */
  bool lines;      /* no option: the command names rows by their lines */
};

/* Rows for the option table of a command whose arguments are `struct_tag`, with a field `input`;
 * `zero_fallback` is the policy for rows without output when none is given. */
#define KC_CLI_TRACE_INPUT_OPTIONS(struct_tag, zero_fallback)                                      \
  {.key = "format", .type = KC_OPTION_TEXT, .offset = offsetof(struct struct_tag, input.format),   \
   .size = sizeof ((struct kc_cli_trace_input *)0)->format, .fallback = "auto", .values = "NAME",  \
   .help = "insist on a trace format; auto recognises it by its content"},                         \
  {.key = "zero-output", .type = KC_OPTION_CHOICE,                                                 \
   .offset = offsetof(struct struct_tag, input.zero_output), .fallback = zero_fallback,            \
   .values = "error|drop|floor", .help = "rows that produced nothing: refuse, drop, count as 1"},  \
  {.key = "time-unit", .type = KC_OPTION_CHOICE,                                                   \
   .offset = offsetof(struct struct_tag, input.time_unit), .fallback = "format",                   \
   .values = "format|s|ms|us|ns|ps", .help = "what bare numbers of time count"},                   \
  {.key = "block-tokens", .type = KC_OPTION_U32,                                                   \
   .offset = offsetof(struct struct_tag, input.block_tokens), .max = 1048576, .fallback = "0",     \
   .unit = "tokens", .help = "tokens per prefix id; 0: as the format says"},                       \
  {.key = "tail", .type = KC_OPTION_CHOICE, .offset = offsetof(struct struct_tag, input.tail),     \
   .fallback = "format", .values = "format|ceil|floor",                                            \
   .help = "whether the partial last block has an id"},                                            \
  {.key = "missing-output", .type = KC_OPTION_U32,                                                 \
   .offset = offsetof(struct struct_tag, input.missing_output_tokens), .max = 4294967295.0,        \
   .fallback = "0", .unit = "tokens",                                                              \
   .help = "output of rows whose format has none; 0: refuse"}

/* Reads the paths as one trace. */
enum kc_err kc_cli_trace_load(struct kc_trace *trace, const struct kc_cli_trace_input *input,
                              const char *const *path, size_t count, struct kc_diag *diag);

/* Everything repaired, dropped or assumed while reading: one note on stderr each; or a JSON object
 * of those that are not 0 (a new reference, NULL when memory ran out). */
void kc_cli_trace_notes(const struct kc_trace *trace);
json_t *kc_cli_trace_notes_json(const struct kc_trace *trace);

/* A trace's figures on stdout, or as a JSON object (a new reference). */
void kc_cli_trace_info_print(const struct kc_trace *trace, const struct kc_trace_stats *stats);
json_t *kc_cli_trace_info_json(const struct kc_trace *trace, const struct kc_trace_stats *stats);

#endif
