/* What every subcommand of the program shares: the table of commands, and how they read arguments,
 * print problems and print JSON.
 *
 *   main.c     dispatch: kvcap COMMAND ...   -> kc_cmd_xxx(argc, argv), argv[0] = its name
 *   cmd_*.c    one command each: its option table, its work, its output; returns the exit status
 *   cli.c      the helpers below
 *
 * stdout is data, stderr is people. This folder alone prints. A command:
 *
 *   static const struct kc_option options[] = {...};
 *   static const struct kc_cli_usage usage = {
 *     .name = "fit", .synopsis = "[SCENARIO] [options]", .about = "Prints ...", .options = options,
 *     .option_count = sizeof options / sizeof options[0], .positional_max = 1};
 *
 *   int kc_cmd_fit(int argc, char **argv)
 *   {
 *     struct arguments a; const char *scenario[1]; size_t given;
 *     const int status = kc_cli_arguments(&usage, &a, argc, argv, scenario, &given);
 *     if (status >= 0) return status;   // --help was printed, or a usage error
 *     ...
 *     if (err != KC_OK) return kc_cli_fail(&diag);
 *     return kc_cli_print_json(root); // releases it
 *   }
 */
#ifndef KC_SIM_CLI_CLI_H
#define KC_SIM_CLI_CLI_H

#include <jansson.h>

#include "engine/base/diag.h"
#include "engine/base/option.h"

/* ---- commands ---- */

/* Each returns the exit status of the program. argv[0] is the command's name. */
int kc_cmd_fit(int argc, char **argv);
int kc_cmd_run(int argc, char **argv);
int kc_cmd_sweep(int argc, char **argv);
int kc_cmd_precision(int argc, char **argv);
int kc_cmd_plan(int argc, char **argv);
int kc_cmd_engine(int argc, char **argv);
int kc_cmd_trace(int argc, char **argv);
int kc_cmd_report(int argc, char **argv);
int kc_cmd_verify(int argc, char **argv);
int kc_cmd_calibrate(int argc, char **argv);
int kc_cmd_compare(int argc, char **argv);
int kc_cmd_db(int argc, char **argv);
int kc_cmd_version(int argc, char **argv);

struct kc_command {
  const char *name;
  const char *purpose; /* one line, for `kvcap help` */
  int (*run)(int argc, char **argv);
};

/* All commands in the order of the overview; *count receives their number. */
const struct kc_command *kc_cli_commands(size_t *count);

/* A command made of parts: `kvcap trace info ...`. */
struct kc_cli_parts {
  const char *name;  /* of the command */
  const char *about; /* one sentence, for the overview */
  const struct kc_command *part;
  size_t count;
};

/* Runs the part that argv[1] names, with that as its argv[0]. Without one: the overview on stderr,
 * 2; --help: on stdout, 0; an unknown one: a near name, 2. */
int kc_cli_run_part(const struct kc_cli_parts *parts, int argc, char **argv);

/* ---- arguments ---- */

enum { KC_CLI_POSITIONAL_MAX = 256 };

struct kc_cli_usage {
  const char *name;      /* "fit", or "db verify" */
  const char *synopsis;  /* after the name: "SCENARIO [options]" */
  const char *about;     /* a sentence or two; lines at most 100 columns, broken by '\n' */
  const struct kc_option *options; /* --help is known without a row */
  size_t option_count;
  size_t positional_min, positional_max; /* arguments that are not options */
  const char *epilogue;  /* examples after the options; may be NULL */
};

/* Fills `target` with the table's defaults, then reads argv[1..argc). `positional` has room for
 * usage->positional_max (at most KC_CLI_POSITIONAL_MAX) and may be NULL when that is 0; *given (may
 * be NULL) is how many there were. Returns -1 to go on; otherwise the exit status: 0 after --help
 * (printed on stdout), 2 after a usage error (printed on stderr). */
int kc_cli_arguments(const struct kc_cli_usage *usage, void *target, int argc, char **argv,
                     const char **positional, size_t *given);

/* Prints the help text of a command on stdout. */
void kc_cli_help(const struct kc_cli_usage *usage);

/* ---- the manual (manual.c) ---- */

/* Two more faces of the same tables: a manual page in roff's man macros, completion for bash. */
enum kc_manual { KC_MANUAL_NONE, KC_MANUAL_PAGE, KC_MANUAL_COMPLETION };

/* Prints all of it on stdout: asks every command for its --help, which then has that form.
 * Returns the exit status. */
int kc_manual_print(enum kc_manual form);
/* The form that --help has just now: NONE but inside kc_manual_print. */
enum kc_manual kc_manual_form(void);
/* A command's, and those of a list of parts, in that form; not NONE. */
void kc_manual_usage(const struct kc_cli_usage *usage);
void kc_manual_parts(const char *name, const struct kc_command *part, size_t count);

/* ---- output ---- */

/* One line on stderr, "kvcap: path:line:column: sentence"; returns the exit status of its code. */
int kc_cli_fail(const struct kc_diag *diag);

/* All problems, one line each, and a count where the list was cut; exit status of the first. */
int kc_cli_fail_list(const struct kc_diag_list *problems);

/* One line on stderr that is not an error: "kvcap: note: sentence". */
void kc_cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The one form of JSON documents: "schema" first, the other keys sorted at every depth, reals with
 * 15 significant digits, indented by 2, newline at the end. `root` is an object.
 * kc_cli_json_text borrows it and returns a heap string that the caller frees, NULL when memory ran
 * out. kc_cli_print_json prints it on stdout and releases it; NULL is "memory ran out". Returns 0,
 * or 8 when memory ran out. */
char *kc_cli_json_text(const json_t *root);
int kc_cli_print_json(json_t *root);

/* A JSON string (a new reference, NULL when memory ran out) of a text of unknown origin, such as a
 * path: JSON knows text only, so bytes that are not UTF-8 and control characters become '?'. */
json_t *kc_cli_json_string(const char *text);

/* Flushes stdout at the end. A reader that went away (broken pipe) is not an error: `status` comes
 * back. A full disk is: 4, with a line on stderr. */
int kc_cli_finish(int status);

#endif
