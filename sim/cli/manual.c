/* The manual: what --help says, as a page for man(1) and as a script for bash.
 *
 *   kc_manual_print --form--> every command's --help --> kc_cli_help --> kc_manual_usage
 *                               `--> kc_cli_run_part --> kc_manual_parts --> every part's --help
 *
 * So each command has one table of options, and nothing must be kept in step with it. The form is
 * the only state here; it is set for the length of kc_manual_print.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/cli/cli.h"

static enum kc_manual manual_form = KC_MANUAL_NONE;

enum kc_manual kc_manual_form(void)
{
  return manual_form;
}

/* ---- roff ---- */

/* A text in which nothing is markup: no request at the start of a line, plain dashes. */
static void put_roff(const char *text, size_t bytes)
{
  KC_ASSERT(text != NULL);
  bool begins = true;
  for (size_t i = 0; i < bytes; i++) {
    const char c = text[i];
    if (begins && (c == '.' || c == '\'')) fputs("\\&", stdout);
    if (c == '\\') {
      fputs("\\e", stdout);
    } else if (c == '-') {
      fputs("\\-", stdout);
    } else {
      putchar(c);
    }
    begins = c == '\n';
  }
}

static void put_text(const char *text)
{
  put_roff(text, strlen(text));
}

/* Lines that stay as they are. */
static void put_example(const char *text)
{
  fputs(".PP\n.EX\n", stdout);
  put_text(text);
  fputs("\n.EE\n", stdout);
}

static void put_option(const struct kc_option *option)
{
  char sentence[KC_OPTION_SENTENCE_BYTES];
  kc_option_sentence(option, sentence, sizeof sentence);
  fputs(".TP\n.BI \\-\\-", stdout);
  put_text(option->key);
  if (option->type != KC_OPTION_FLAG) {
    fputs(option->bare != NULL ? " \" [" : " \" ", stdout);
    put_text(kc_option_word(option));
    fputs(option->bare != NULL ? "]\"" : "\"", stdout);
  }
  putchar('\n');
  put_text(sentence);
  putchar('\n');
}

static void put_page_usage(const struct kc_cli_usage *usage)
{
  fputs(".SS kvcap ", stdout);
  put_text(usage->name);
  putchar(' ');
  put_text(usage->synopsis);
  putchar('\n');
  put_text(usage->about);
  putchar('\n');
  for (size_t i = 0; i < usage->option_count; i++) put_option(&usage->options[i]);
  if (usage->epilogue != NULL) put_example(usage->epilogue);
}

static void put_page_head(void)
{
  printf(".TH KVCAP 1 \"\" \"kvcap %s\"\n", KVCAP_VERSION);
  fputs(".SH NAME\nkvcap \\- what fits, how many requests at once, how fast, and at what price\n"
        ".SH SYNOPSIS\n.B kvcap\n.I COMMAND\n[arguments]\n"
        ".SH DESCRIPTION\nkvcap replays request traces through the page allocator and the batch "
        "scheduler of a server of large language models, in virtual time, and says what fits in "
        "memory, how many requests run at once, when memory runs out, how fast they are answered "
        "and what a token costs, for each precision of weights and KV cache. Data go to standard "
        "output, words for people to standard error. Each command prints its options with "
        "\\-\\-help.\n.SH COMMANDS\n", stdout);
}

/* kc_err_exit_status says which error is which. */
static void put_page_tail(void)
{
  static const char *const status[][2] = {
    {"0", "done"}, {"1", "a check failed: --require, expect:, a comparison"}, {"2", "usage"},
    {"3", "bad input"}, {"4", "file or storage"}, {"5", "does not fit"},
    {"6", "integrity violation"}, {"7", "device"},
    {"8", "out of host resources, or past a stated ceiling"}, {"130", "interrupted"}};
  fputs(".SH EXIT STATUS\n", stdout);
  for (size_t i = 0; i < sizeof status / sizeof status[0]; i++) {
    printf(".TP\n.B %s\n", status[i][0]);
    put_text(status[i][1]);
    putchar('\n');
  }
  fputs(".SH ENVIRONMENT\n.TP\n.B KVCAP_DATA\nA folder with models, gpus, examples, published and "
        "reports, looked at before the program's own.\n"
        ".TP\n.B KVCAP_MODULE\nThe module through which the engine uses a GPU, in place of "
        "kvcap_cuda.so beside the program.\n"
        ".SH FILES\n.TP\n.I kvcap.db\nThe database of runs that \\-\\-db without a name means.\n",
        stdout);
}

/* ---- bash ---- */

/* What stands between single quotes in the script. Our tables have no quote in a name. */
static void put_word(const char *text, size_t bytes)
{
  KC_ASSERT(memchr(text, '\'', bytes) == NULL);
  printf("%.*s", (int)bytes, text);
}

/* The values of an option, where there is a list of them: "a|b|c" as "a b c". */
static void put_values(const struct kc_option *option)
{
  const bool listed = option->type == KC_OPTION_CHOICE || option->type == KC_OPTION_BOOL;
  if (!listed) return;
  printf("        --%s) echo '", option->key);
  for (const char *at = kc_option_word(option); *at != '\0';) {
    const size_t bytes = strcspn(at, "|");
    put_word(at, bytes);
    at += bytes;
    if (*at == '\0') break;
    putchar(' ');
    at++;
  }
  fputs("'; return ;;\n", stdout);
}

static void put_completion_usage(const struct kc_cli_usage *usage)
{
  fputs("    '", stdout);
  put_word(usage->name, strlen(usage->name));
  fputs("')\n      case \"$2\" in\n", stdout);
  for (size_t i = 0; i < usage->option_count; i++) put_values(&usage->options[i]);
  fputs("      esac\n      case \"$3\" in -*) echo '", stdout);
  for (size_t i = 0; i < usage->option_count; i++) printf("--%s ", usage->options[i].key);
  fputs("--help' ;; esac ;;&\n", stdout); /* on to another table of the same name */
}

static void put_completion_parts(const char *name, const struct kc_command *part, size_t count)
{
  fputs("    '", stdout);
  put_word(name, strlen(name));
  fputs("') echo '", stdout);
  for (size_t i = 0; i < count; i++) printf("%s%s", i == 0 ? "" : " ", part[i].name);
  fputs("' ;;\n", stdout);
}

static void put_completion_head(void)
{
  fputs("# Completion of kvcap for bash, made by `kvcap help --completion`; to be sourced.\n\n"
        "# COMMAND WORD_BEFORE WORD: what may stand for WORD; nothing: a file.\n"
        "_kvcap_words()\n{\n  case \"$1\" in\n", stdout);
}

static void put_completion_tail(void)
{
  fputs("  esac\n}\n\n"
        "_kvcap()\n{\n"
        "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=\n"
        "  # \"--key=value\" comes as three words.\n"
        "  if [ \"$word\" = = ]; then\n    word=\n"
        "  elif [ \"$before\" = = ] && [ \"$COMP_CWORD\" -gt 1 ]; then\n"
        "    before=${COMP_WORDS[COMP_CWORD-2]}\n  fi\n"
        "  [ \"$COMP_CWORD\" -le 1 ] || command=${COMP_WORDS[1]}\n"
        "  if [ \"$COMP_CWORD\" -gt 2 ] && [ -n \"$(_kvcap_words \"$command\" '' '')\" ]; then\n"
        "    command+=\" ${COMP_WORDS[2]}\"\n  fi\n"
        "  mapfile -t COMPREPLY < \\\n"
        "    <(compgen -W \"$(_kvcap_words \"$command\" \"$before\" \"$word\")\" -- \"$word\")\n}\n"
        "complete -o default -F _kvcap kvcap\n", stdout);
}

/* ---- both ---- */

void kc_manual_usage(const struct kc_cli_usage *usage)
{
  KC_ASSERT(manual_form != KC_MANUAL_NONE);
  if (manual_form == KC_MANUAL_PAGE) put_page_usage(usage);
  else put_completion_usage(usage);
}

static void ask(const struct kc_command *command)
{
  char help[] = "--help", name[32];
  KC_ASSERT(strlen(command->name) < sizeof name);
  snprintf(name, sizeof name, "%s", command->name);
  char *argv[] = {name, help, NULL};
  const int status = command->run(2, argv);
  KC_ASSERT(status == 0);
}

void kc_manual_parts(const char *name, const struct kc_command *part, size_t count)
{
  KC_ASSERT(manual_form != KC_MANUAL_NONE);
  if (manual_form == KC_MANUAL_COMPLETION) put_completion_parts(name, part, count);
  for (size_t i = 0; i < count; i++) ask(&part[i]);
}

int kc_manual_print(enum kc_manual form)
{
  size_t count;
  const struct kc_command *command = kc_cli_commands(&count);
  KC_ASSERT(form != KC_MANUAL_NONE && manual_form == KC_MANUAL_NONE);
  manual_form = form;
  if (form == KC_MANUAL_PAGE) put_page_head();
  else put_completion_head();
  kc_manual_parts("", command, count);
  if (form == KC_MANUAL_PAGE) put_page_tail();
  else put_completion_tail();
  manual_form = KC_MANUAL_NONE;
  return 0;
}
