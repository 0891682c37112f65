/* kvcap trace convert, kvcap trace anonymise: a trace in, a changed one out.
 *
 *   IN...  -> read -> transform -> what would the target lose? -> OUT.partial -> OUT
 *
 * OUT appears whole or not at all: it is written beside its place and renamed. Everything that the
 * reader and the transforms did is a note on stderr, or in the document of --json. anonymise is
 * convert with its last transform always on. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/cli/cmd_trace.h"
#include "sim/cli/trace_output.h"
#include "traces/transform/trace_export.h"
#include "traces/transform/transform.h"

enum { CONVERT_SCHEMA = 1, FRACTION_BYTES = 48 };

struct convert_arguments {
  struct kc_cli_trace_input input;
  int to, failed, cancelled, loop;
  kc_ps from_ps, until_ps, idle_cap_ps, spread_ps;
  uint64_t skip_rows, limit_rows, seed;
  char rate[FRACTION_BYTES], sample[FRACTION_BYTES], shard[FRACTION_BYTES];
  bool until_given, limit_given, idle_cap_given;
  bool lossy, anonymise, json;
};

#define FIELD(name) offsetof(struct convert_arguments, name)

#define TARGET_OPTIONS                                                                             \
  {.key = "to", .type = KC_OPTION_CHOICE, .offset = FIELD(to), .fallback = "kvcap",                \
   .values = "kvcap|azure|vidur|mooncake", .help = "the format to write"},                         \
  {.key = "lossy", .type = KC_OPTION_FLAG, .offset = FIELD(lossy),                                 \
   .help = "write even if the format has no place for all of the trace"},                          \
  {.key = "seed", .type = KC_OPTION_U64, .offset = FIELD(seed), .fallback = "1",                   \
   .help = "of sample, spread and anonymise"},                                                     \
  {.key = "json", .type = KC_OPTION_FLAG, .offset = FIELD(json),                                   \
   .help = "print what was done as one JSON document"}

static const struct kc_option convert_options[] = {
  KC_CLI_TRACE_INPUT_OPTIONS(convert_arguments, "error"),
  {.key = "failed", .type = KC_OPTION_CHOICE, .offset = FIELD(failed), .fallback = "keep",
   .values = "keep|drop", .help = "rows marked as failed"},
  {.key = "cancelled", .type = KC_OPTION_CHOICE, .offset = FIELD(cancelled), .fallback = "keep",
   .values = "keep|drop", .help = "rows that the user stopped"},
  {.key = "from", .type = KC_OPTION_DURATION, .offset = FIELD(from_ps), .fallback = "0",
   .help = "drop what arrives earlier, from the start of the trace"},
  {.key = "until", .type = KC_OPTION_DURATION, .offset = FIELD(until_ps),
   .set_offset = FIELD(until_given), .help = "drop what arrives then or later"},
  {.key = "skip", .type = KC_OPTION_U64, .offset = FIELD(skip_rows), .fallback = "0",
   .unit = "rows", .help = "drop this many of the rows left"},
  {.key = "limit", .type = KC_OPTION_U64, .offset = FIELD(limit_rows),
   .set_offset = FIELD(limit_given), .unit = "rows", .help = "keep no more than this many"},
  {.key = "sample", .type = KC_OPTION_TEXT, .offset = FIELD(sample), .size = FRACTION_BYTES,
   .fallback = "1", .values = "N/D", .help = "keep this share of whole sessions, by the seed"},
  {.key = "shard", .type = KC_OPTION_TEXT, .offset = FIELD(shard), .size = FRACTION_BYTES,
   .fallback = "1/1", .values = "K/N", .help = "keep part K of N parts of whole sessions"},
  {.key = "loop", .type = KC_OPTION_CHOICE, .offset = FIELD(loop), .fallback = "keep",
   .values = "keep|open", .help = "open: turns start at their recorded times, and wait for nobody"},
  {.key = "idle-cap", .type = KC_OPTION_DURATION, .offset = FIELD(idle_cap_ps),
   .set_offset = FIELD(idle_cap_given),
   .help = "cut stretches in which nobody is active to this length"},
  {.key = "rate", .type = KC_OPTION_TEXT, .offset = FIELD(rate), .size = FRACTION_BYTES,
   .fallback = "1", .values = "N/D", .help = "make arrivals this many times as fast, exactly"},
  {.key = "spread", .type = KC_OPTION_DURATION, .offset = FIELD(spread_ps), .fallback = "0",
   .help = "spread the rows of an instant over this long, for coarse clocks"},
  {.key = "anonymise", .type = KC_OPTION_FLAG, .offset = FIELD(anonymise),
   .help = "replace names of kinds, renumber prefix ids"},
  TARGET_OPTIONS,
};

static const struct kc_option anonymise_options[] = {
  KC_CLI_TRACE_INPUT_OPTIONS(convert_arguments, "error"),
  TARGET_OPTIONS,
};

static const struct kc_cli_usage convert_usage = {
  .name = "trace convert",
  .synopsis = "IN... OUT [options]",
  .about = "Writes a trace in another format, or a part of it. The options work in the order in\n"
           "which they stand here. OUT may be - for standard output.",
  .options = convert_options,
  .option_count = sizeof convert_options / sizeof convert_options[0],
  .positional_min = 2,
  .positional_max = KC_CLI_POSITIONAL_MAX,
  .epilogue = "examples:\n"
              "  kvcap trace convert azure.csv hour.csv --from 1h --until 2h --rate 3/2\n"
              "  kvcap trace convert sessions.csv tenth.csv --sample 1/10 --seed 7\n"
              "  kvcap trace convert mooncake.jsonl smooth.csv --spread 3s",
};

static const struct kc_cli_usage anonymise_usage = {
  .name = "trace anonymise",
  .synopsis = "IN... OUT [options]",
  .about = "Writes a copy of a trace that can be shown: prefix ids renumbered by a seeded\n"
           "permutation, kinds renamed, sessions numbered, times from 0. Lengths, times between\n"
           "requests and which ids are equal stay.",
  .options = anonymise_options,
  .option_count = sizeof anonymise_options / sizeof anonymise_options[0],
  .positional_min = 2,
  .positional_max = KC_CLI_POSITIONAL_MAX,
  .epilogue = "example:\n  kvcap trace anonymise log.jsonl public.csv --seed 42",
};

/* ---- arguments to transform ---- */

static enum kc_err read_fraction(const char *option, const char *text, struct kc_fraction *fraction,
                                 struct kc_diag *diag)
{
  KC_ASSERT(option != NULL && text != NULL);
  if (kc_fraction_parse(text, fraction)) return KC_OK;
  return kc_fail(diag, KC_ERR_USAGE, "--%s is \"%.40s\"; expected a fraction above 0 such as 3/4, "
                 "0.75 or 2, with terms up to 10^9", option, text);
}

/* Not a fraction that may be reduced: part 2 of 4 is not part 1 of 2. */
static enum kc_err read_shard(const char *text, struct kc_transform *transform,
                              struct kc_diag *diag)
{
  const char *const slash = strchr(text, '/');
  KC_ASSERT(transform != NULL);
  if (slash != NULL && kc_parse_u64(text, (size_t)(slash - text), &transform->shard) &&
      kc_parse_u64(slash + 1, strlen(slash + 1), &transform->shards)) {
    return KC_OK;
  }
  return kc_fail(diag, KC_ERR_USAGE, "--shard is \"%.40s\"; expected K/N such as 2/4", text);
}

static enum kc_err read_transform(const struct convert_arguments *arguments,
                                  struct kc_transform *transform, struct kc_diag *diag)
{
  kc_transform_default(transform);
  transform->drop_failed = arguments->failed == 1;
  transform->drop_cancelled = arguments->cancelled == 1;
  transform->from_ps = arguments->from_ps;
  if (arguments->until_given) transform->to_ps = arguments->until_ps;
  transform->skip_rows = arguments->skip_rows;
  if (arguments->limit_given) transform->limit_rows = arguments->limit_rows;
  transform->open_loop = arguments->loop == 1;
  if (arguments->idle_cap_given) transform->idle_cap_ps = arguments->idle_cap_ps;
  transform->spread_ps = arguments->spread_ps;
  transform->anonymise = arguments->anonymise;
  transform->seed = arguments->seed;
  if (arguments->rate[0] == '\0') return KC_OK; /* anonymise has none of the fractions */
  KC_TRY(read_fraction("rate", arguments->rate, &transform->rate, diag));
  KC_TRY(read_fraction("sample", arguments->sample, &transform->sample, diag));
  return read_shard(arguments->shard, transform, diag);
}

/* ---- output ---- */

/* Lists each loss as a note, or refuses with all of them in one sentence. */
static enum kc_err check_losses(const struct kc_trace *trace,
                                const struct convert_arguments *arguments,
                                uint64_t lost[KC_LOSSES], struct kc_diag *diag)
{
  char text[KC_DIAG_TEXT_BYTES];
  size_t used = 0;
  const enum kc_export_format format = (enum kc_export_format)arguments->to;
  if (kc_trace_export_losses(trace, format, lost)) return KC_OK;
  for (unsigned i = 0; i < KC_LOSSES && used < sizeof text; i++) {
    if (lost[i] == 0) continue;
    const char *const words = kc_export_loss_text((enum kc_export_loss)i, format);
    if (arguments->lossy) {
      kc_cli_note("lost: %" PRIu64 " %s", lost[i], words);
    } else {
      const int length = snprintf(text + used, sizeof text - used, "%s%" PRIu64 " %s",
                                  used == 0 ? "" : "; ", lost[i], words);
      KC_ASSERT(length > 0);
      used += (size_t)length;
    }
  }
  if (arguments->lossy) return KC_OK;
  const char *const name = kc_export_format_name(format);
  return kc_fail(diag, KC_ERR_USAGE, "format %s has no place for all of this trace (%.400s); write "
                 "it all the same with --to %s --lossy, or keep everything with --to kvcap", name,
                 text, name);
}

/* ---- telling ---- */

static void tell_changes(const struct kc_trace *trace, const uint64_t change[KC_CHANGES])
{
  for (unsigned i = 0; i < KC_CHANGES; i++) {
    if (change[i] == 0) continue;
    kc_cli_note("%" PRIu64 " %s", change[i], kc_trace_change_text((enum kc_trace_change)i));
  }
  if (ferror(stdout) == 0) kc_cli_note("%" PRIu64 " rows written", trace->count);
}

static json_t *changes_json(const uint64_t change[KC_CHANGES])
{
  json_t *const object = json_object();
  for (unsigned i = 0; i < KC_CHANGES && object != NULL; i++) {
    if (change[i] == 0) continue;
    json_object_set_new(object, kc_trace_change_name((enum kc_trace_change)i),
                        json_integer((json_int_t)change[i]));
  }
  return object;
}

static json_t *losses_json(const uint64_t lost[KC_LOSSES])
{
  json_t *const object = json_object();
  for (unsigned i = 0; i < KC_LOSSES && object != NULL; i++) {
    if (lost[i] == 0) continue;
    json_object_set_new(object, kc_export_loss_name((enum kc_export_loss)i),
                        json_integer((json_int_t)lost[i]));
  }
  return object;
}

/* ---- the work ---- */

static enum kc_err convert_loaded(struct kc_trace *trace, const struct convert_arguments *arguments,
                                  const struct kc_transform *transform, const char *out,
                                  struct kc_diag *diag)
{
  uint64_t change[KC_CHANGES], lost[KC_LOSSES];
  json_t *const notes = arguments->json ? kc_cli_trace_notes_json(trace) : NULL;
  if (!arguments->json) kc_cli_trace_notes(trace);
  enum kc_err err = kc_trace_transform(trace, transform, change, diag);
  if (err == KC_OK) err = check_losses(trace, arguments, lost, diag);
  const enum kc_export_format format = (enum kc_export_format)arguments->to;
  if (err == KC_OK) {
    err = kc_cli_trace_put(trace, format, out, diag); /* losses were checked or allowed above */
  }
  if (err != KC_OK) {
    json_decref(notes);
    return err;
  }
  if (arguments->json) {
    const int status = kc_cli_print_json(json_pack(
        "{s:i, s:o, s:I, s:o, s:o, s:o}", "schema", CONVERT_SCHEMA, "path",
        kc_cli_json_string(out), "rows",
        (json_int_t)trace->count, "notes", notes, "changes", changes_json(change), "lost",
        losses_json(lost)));
    return status == 0 ? KC_OK : kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
  }
  tell_changes(trace, change);
  return KC_OK;
}

static int convert(const struct convert_arguments *arguments, const char *const *path, size_t count)
{
  struct kc_transform transform;
  struct kc_trace trace;
  struct kc_diag diag;
  const char *const out = path[count - 1];
  KC_ASSERT(count >= 2);
  if (arguments->json && strcmp(out, "-") == 0) {
    kc_fail(&diag, KC_ERR_USAGE, "--json and an output on - would mix on standard output; name a "
            "file");
    return kc_cli_fail(&diag);
  }
  enum kc_err err = read_transform(arguments, &transform, &diag);
  if (err == KC_OK) err = kc_cli_trace_output_check(out, path, count - 1, &diag);
  if (err == KC_OK) err = kc_cli_trace_load(&trace, &arguments->input, path, count - 1, &diag);
  if (err != KC_OK) return kc_cli_fail(&diag);
  err = convert_loaded(&trace, arguments, &transform, out, &diag);
  kc_trace_free(&trace);
  return err == KC_OK ? 0 : kc_cli_fail(&diag);
}

int kc_cmd_trace_convert(int argc, char **argv)
{
  KC_ASSERT(argc >= 1);
  struct convert_arguments arguments = {0};
  const char *path[KC_CLI_POSITIONAL_MAX];
  size_t count = 0;
  const int status = kc_cli_arguments(&convert_usage, &arguments, argc, argv, path, &count);
  return status >= 0 ? status : convert(&arguments, path, count);
}

int kc_cmd_trace_anonymise(int argc, char **argv)
{
  KC_ASSERT(argc >= 1);
  struct convert_arguments arguments = {0};
  const char *path[KC_CLI_POSITIONAL_MAX];
  size_t count = 0;
  const int status = kc_cli_arguments(&anonymise_usage, &arguments, argc, argv, path, &count);
  arguments.anonymise = true;
  return status >= 0 ? status : convert(&arguments, path, count);
}
