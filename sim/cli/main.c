/* The program: picks the subcommand and hands over.
 *
 *   kvcap                      overview on stderr, exit 2 (nothing was asked)
 *   kvcap help [COMMAND [PART]]  overview, or the command's own help, on stdout
 *   kvcap help figures         the names that --require, --slo, --figures and expect: take
 *   kvcap help --man           the manual page of all of it; --completion: for bash (manual.c)
 *   kvcap COMMAND ...          commands[].run(argc - 1, argv + 1)
 *
 * The table below is the only list of commands: the overview, the dispatch and the suggestion for a
 * mistyped name read the same rows. Exit statuses are those of kc_err_exit_status.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/number.h"
#include "sim/cli/cli.h"
#include "sim/cli/interrupt.h"
#include "sim/scenario/figure.h"

static const struct kc_command commands[] = {
  {"fit", "what fits: the memory bill of a model on a GPU, and how many tokens and requests",
   kc_cmd_fit},
  {"run", "replay a workload against a scenario: latency, throughput, memory, price", kc_cmd_run},
  {"sweep", "the same at every combination of values, on several threads", kc_cmd_sweep},
  {"precision", "compare formats of weights and KV: what fits, how fast, at what price",
   kc_cmd_precision},
  {"plan", "find the cheapest deployment that meets an SLO on a workload", kc_cmd_plan},
  {"verify", "predict published figures and say how far off each prediction is", kc_cmd_verify},
  {"calibrate", "fit the parameters of step times to measurements", kc_cmd_calibrate},
  {"compare", "two answers to the same load side by side: runs or measurements", kc_cmd_compare},
  {"engine", "compute a scenario's tokens with the reference engine, and check it",
   kc_cmd_engine},
  {"trace", "look at, check, convert, anonymise, make and draw request traces", kc_cmd_trace},
  {"report", "draw the figures of stored runs", kc_cmd_report},
  {"db", "list and verify stored runs", kc_cmd_db},
  {"version", "print the version", kc_cmd_version},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

const struct kc_command *kc_cli_commands(size_t *count)
{
  KC_ASSERT(count != NULL);
  *count = COMMANDS;
  return commands;
}

static void print_overview(FILE *out)
{
  fputs("kvcap: what fits, how many requests at once, how fast, and at what price\n\n"
        "usage: kvcap COMMAND [arguments]\n\n", out);
  for (size_t i = 0; i < COMMANDS; i++) {
    fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].purpose);
  }
  fprintf(out, "  %-9s %s\n", "help", "this overview, or the options of a command: "
          "kvcap help COMMAND");
  fputs("\n`kvcap help figures` lists what --require, --slo and --figures name, "
        "`kvcap help --man` prints all\nof it as a manual page, `kvcap help --completion` what "
        "bash needs to complete commands and options.\n", out);
}

static const struct kc_command *find_command(const char *name)
{
  for (size_t i = 0; i < COMMANDS; i++) {
    if (strcmp(commands[i].name, name) == 0) return &commands[i];
  }
  return NULL;
}

/* Unknown command: usage error with the nearest name. */
static int fail_unknown(const char *name)
{
  const char *nearest = "help";
  unsigned least = kc_edit_distance(name, nearest);
  for (size_t i = 0; i < COMMANDS; i++) {
    const unsigned distance = kc_edit_distance(name, commands[i].name);
    if (distance < least) {
      least = distance;
      nearest = commands[i].name;
    }
  }
  struct kc_diag diag;
  if (least <= kc_edit_reach(name)) {
    kc_fail(&diag, KC_ERR_USAGE, "\"%.64s\" is not a command; did you mean \"%s\"? "
            "`kvcap help` lists them", name, nearest);
  } else {
    kc_fail(&diag, KC_ERR_USAGE, "\"%.64s\" is not a command; `kvcap help` lists them", name);
  }
  return kc_cli_fail(&diag);
}

/* `kvcap NAME PART ...` */
static bool has_parts(const struct kc_command *command)
{
  KC_ASSERT(command->run != NULL);
  return command->run == kc_cmd_calibrate || command->run == kc_cmd_engine ||
         command->run == kc_cmd_trace;
}

/* The rows of sim/scenario/figure.h that take a run, or that do not. */
static void print_figures_that(bool need_run)
{
  for (int f = 0; f < KC_FIGURES; f++) {
    const enum kc_figure figure = (enum kc_figure)f;
    const char *help = kc_figure_help(figure);
    if (kc_figure_needs_run(figure) != need_run) continue;
    printf("  %-19s  %-8s  ", kc_figure_name(figure), kc_figure_unit(figure));
    size_t room = 65;
    while (strlen(help) > room) {
      size_t cut = room;
      while (cut > 0 && help[cut] != ' ') cut--;
      printf("%.*s\n%33s", (int)cut, help, "");
      help += cut + 1;
    }
    printf("%s\n", help);
  }
}

static void print_figures(void)
{
  fputs("Figures, as --require, --slo, --figures, expect: and databases name them.\n\n"
        "Of a run:\n", stdout);
  print_figures_that(true);
  fputs("\nOf the memory bill, without a run:\n", stdout);
  print_figures_that(false);
}

static int fail_too_many(const char *unwanted)
{
  struct kc_diag diag;
  kc_fail(&diag, KC_ERR_USAGE, "unexpected argument \"%.64s\"; expected kvcap help COMMAND",
          unwanted);
  return kc_cli_fail(&diag);
}

static int run_help(int argc, char **argv)
{
  if (argc < 2) {
    print_overview(stdout);
    return 0;
  }
  if (argc == 2 && strcmp(argv[1], "help") == 0) {
    print_overview(stdout);
    return 0;
  }
  if (argc == 2 && strcmp(argv[1], "figures") == 0) {
    print_figures();
    return 0;
  }
  if (argc == 2 && strcmp(argv[1], "--man") == 0) return kc_manual_print(KC_MANUAL_PAGE);
  if (argc == 2 && strcmp(argv[1], "--completion") == 0) {
    return kc_manual_print(KC_MANUAL_COMPLETION);
  }
  const struct kc_command *command = find_command(argv[1]);
  if (command == NULL) return argc == 2 ? fail_unknown(argv[1]) : fail_too_many(argv[2]);
  const int words = has_parts(command) ? 3 : 2;
  if (argc > words) return fail_too_many(argv[words]);
  char help[] = "--help";
  char *arguments[] = {argv[1], argc == 3 ? argv[2] : help, argc == 3 ? help : NULL, NULL};
  return command->run(argc, arguments);
}

static int dispatch(int argc, char **argv)
{
  const char *name = argv[1];
  if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
    return run_help(argc - 1, argv + 1);
  }
  if (strcmp(name, "--version") == 0) {
    char version[] = "version";
    char *arguments[] = {version, NULL};
    return kc_cmd_version(1, arguments);
  }
  const struct kc_command *command = find_command(name);
  if (command == NULL) return fail_unknown(name);
  return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
  /* A reader such as `head` may close the pipe early; kc_cli_finish tells that from a full disk. */
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN); /* a file-size limit is a write error like a full disk */
  kc_interrupt_at_once();
  if (argc < 2) {
    print_overview(stderr);
    return 2;
  }
  return kc_cli_finish(dispatch(argc, argv));
}
