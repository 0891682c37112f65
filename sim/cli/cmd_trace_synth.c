/* kvcap trace synth: a trace out of a description, another trace, or a pool of clients.
 *
 *   options --> which source? --> check that each option given applies --> traces/synth --> OUT
 *
 *   rate     arrivals by --rate and --arrivals; lengths by --preset, --lengths, --lengths-like, or
 *            --input and --output
 *   session  the same, when any option of sessions is given or the preset is "agent"
 *   like     --like FILE: everything from the file
 *   pool     --servegen FOLDER: everything from the clients' files
 *
 * Numbers with a fraction are read as exact decimals, never as doubles, so that equal options give
 * equal bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/base/number.h"
#include "sim/cli/cmd_trace.h"
#include "sim/cli/trace_output.h"
#include "traces/synth/servegen.h"

enum { SYNTH_SCHEMA = 1, NUMBER_BYTES = 48, PATH_TEXT_BYTES = 1024 };
#define LENGTHS_BYTES_MAX ((size_t)256 << 20)

/* Where an option applies; a source is one of these bits. */
enum { RATE = 1, SESSION = 2, LIKE = 4, POOL = 8, OWN = RATE | SESSION, ANY = 15 };

enum synth_option {
  LIKE_FILE, POOL_FOLDER, REQUESTS, DURATION, SEED, TO, JSON, RATE_OF, ARRIVALS, SHAPE, CV, DIURNAL,
  WEEKEND, START, BURST_EVERY, BURST_LENGTH, BURST_FACTOR, PRESET, LENGTHS, LENGTHS_LIKE, INPUT,
  OUTPUT, CORRELATION, TURNS, TOOLS, THINK, TOOL_TIME, SYSTEM_TOKENS, SYSTEM_PROMPTS, BLOCK_TOKENS,
  CONTEXT_TOKENS, TOKEN_TIME, FROM, SYNTH_OPTIONS
};

struct synth_arguments {
  char like[PATH_TEXT_BYTES], pool[PATH_TEXT_BYTES];
  char lengths[PATH_TEXT_BYTES], lengths_like[PATH_TEXT_BYTES];
  char preset[NUMBER_BYTES];
  char rate[NUMBER_BYTES], shape[NUMBER_BYTES], cv[NUMBER_BYTES], diurnal[NUMBER_BYTES];
  char weekend[NUMBER_BYTES], burst_factor[NUMBER_BYTES], correlation[NUMBER_BYTES];
  char turns[NUMBER_BYTES], tools[NUMBER_BYTES];
  uint64_t requests, seed;
  kc_ps duration_ps, start_ps, burst_every_ps, burst_length_ps;
  kc_ps think_ps, tool_ps, token_ps, from_ps;
  uint32_t input_tokens, output_tokens, system_tokens, system_prompts, block_tokens, context_tokens;
  int arrivals, to;
  bool json;
  bool given[SYNTH_OPTIONS];
};

#define FIELD(name) offsetof(struct synth_arguments, name)
#define GIVEN(option) .set_offset = FIELD(given) + (option) * sizeof(bool)
#define NUMBER(option, name, field, text)                                            \
  [option] = {.key = name, .type = KC_OPTION_TEXT, .offset = FIELD(field),           \
              .size = NUMBER_BYTES, .values = "X", GIVEN(option), .help = text}
#define SPAN(option, name, field, text)                                              \
  [option] = {.key = name, .type = KC_OPTION_DURATION, .offset = FIELD(field),       \
              GIVEN(option), .help = text}
#define TOKENS(option, name, field, least, text)                                     \
  [option] = {.key = name, .type = KC_OPTION_U32, .offset = FIELD(field), .min = least, \
              .max = 100000000, GIVEN(option), .help = text}
#define PATH_OF(option, name, field, what, text)                                     \
  [option] = {.key = name, .type = KC_OPTION_TEXT, .offset = FIELD(field),           \
              .size = PATH_TEXT_BYTES, .values = what, GIVEN(option), .help = text}

static const struct kc_option synth_options[SYNTH_OPTIONS] = {
  PATH_OF(LIKE_FILE, "like", like, "FILE", "make a trace that looks like this one: rate, gaps, "
          "lengths and how they go together, reuse of prefixes"),
  PATH_OF(POOL_FOLDER, "servegen", pool, "FOLDER", "make the requests of a ServeGen pool of "
          "clients: chunk-*-trace.csv and chunk-*-dataset.json"),
  [REQUESTS] = {.key = "requests", .type = KC_OPTION_U64, .offset = FIELD(requests), .min = 1,
                .max = 1e8, GIVEN(REQUESTS), .help = "at most so many rows; without it and without "
                "--duration 1000, or as many as the file or the pool has"},
  SPAN(DURATION, "duration", duration_ps, "nothing arrives at or after this time"),
  [SEED] = {.key = "seed", .type = KC_OPTION_U64, .offset = FIELD(seed), .fallback = "1",
            GIVEN(SEED), .help = "of every draw; equal seeds and options give equal bytes"},
  [TO] = {.key = "to", .type = KC_OPTION_CHOICE, .offset = FIELD(to), .fallback = "kvcap",
          .values = "kvcap|azure|vidur|mooncake", GIVEN(TO), .help = "the format to write; all but "
          "the first have no place for sessions"},
  [JSON] = {.key = "json", .type = KC_OPTION_FLAG, .offset = FIELD(json),
            .help = "print what was made as one JSON document"},
  NUMBER(RATE_OF, "rate", rate, "requests per second (starts of sessions, with sessions); 1 "
         "without it, and the pool's own for a pool"),
  [ARRIVALS] = {.key = "arrivals", .type = KC_OPTION_CHOICE, .offset = FIELD(arrivals),
                .fallback = "poisson", .values = "constant|poisson|gamma|weibull", GIVEN(ARRIVALS),
                .help = "gaps between arrivals"},
  NUMBER(SHAPE, "shape", shape, "shape of gamma or Weibull gaps; below 1 is bursty"),
  NUMBER(CV, "cv", cv, "instead of the shape: standard deviation over mean of the gaps, 0.02 to "
         "100"),
  NUMBER(DIURNAL, "diurnal", diurnal, "swing of the day around the mean rate, 0 to 1; hours repeat "
         "every week from Monday 00:00"),
  NUMBER(WEEKEND, "weekend", weekend, "rate of a weekend day as a share of a weekday's, 0 to 10"),
  SPAN(START, "start", start_ps, "when the trace starts, after Monday 00:00"),
  SPAN(BURST_EVERY, "burst-every", burst_every_ps, "mean time from one burst to the next"),
  SPAN(BURST_LENGTH, "burst-length", burst_length_ps, "how long a burst lasts; 1 min without it"),
  NUMBER(BURST_FACTOR, "burst-factor", burst_factor, "the rate within a burst, times this; 5 "
         "without it"),
  [PRESET] = {.key = "preset", .type = KC_OPTION_TEXT, .offset = FIELD(preset),
              .size = NUMBER_BYTES, .values = "NAME", GIVEN(PRESET),
              .help = "lengths: conversation, code, reasoning, or agent (sessions with tools); "
              "conversation without any option of lengths"},
  PATH_OF(LENGTHS, "lengths", lengths, "FILE", "lengths from a histogram: "
          "input_tokens,output_tokens,weight or side,tokens,weight"),
  PATH_OF(LENGTHS_LIKE, "lengths-like", lengths_like, "FILE", "lengths from the requests of "
          "another trace, input and output together"),
  TOKENS(INPUT, "input", input_tokens, 1, "every request has so many input tokens"),
  TOKENS(OUTPUT, "output", output_tokens, 1, "every request has so many output tokens"),
  NUMBER(CORRELATION, "correlation", correlation, "of the ranks of input and output, -1 to 1; not "
         "for pairs"),
  NUMBER(TURNS, "turns", turns, "mean turns of a session, at least 1"),
  NUMBER(TOOLS, "tools", tools, "mean tool calls within a turn"),
  SPAN(THINK, "think", think_ps, "mean time from an answer to the next turn; 30 s without it"),
  SPAN(TOOL_TIME, "tool-time", tool_ps, "mean time of a tool call; 5 s without it"),
  TOKENS(SYSTEM_TOKENS, "system-tokens", system_tokens, 0, "tokens of the system prompt, which "
         "sessions share"),
  TOKENS(SYSTEM_PROMPTS, "system-prompts", system_prompts, 1, "how many system prompts there are; "
         "the k-th is used in proportion to 1/k"),
  TOKENS(BLOCK_TOKENS, "block-tokens", block_tokens, 0, "tokens of a prefix id; 64 without it, 0 "
         "for no ids"),
  TOKENS(CONTEXT_TOKENS, "context-tokens", context_tokens, 0, "a longer prompt is compacted; 0 for "
         "never"),
  SPAN(TOKEN_TIME, "token-time", token_ps, "nominal time of an output token, for the recorded "
       "arrivals of later turns; 20 ms without it"),
  SPAN(FROM, "from", from_ps, "where in the pool's time to start"),
};

static const unsigned applies_to[SYNTH_OPTIONS] = {
  [LIKE_FILE] = LIKE, [POOL_FOLDER] = POOL, [REQUESTS] = ANY, [DURATION] = OWN | POOL, [SEED] = ANY,
  [TO] = ANY, [JSON] = ANY, [RATE_OF] = OWN | POOL, [ARRIVALS] = OWN, [SHAPE] = OWN, [CV] = OWN,
  [DIURNAL] = OWN, [WEEKEND] = OWN, [START] = OWN, [BURST_EVERY] = OWN, [BURST_LENGTH] = OWN,
  [BURST_FACTOR] = OWN, [PRESET] = OWN, [LENGTHS] = OWN, [LENGTHS_LIKE] = OWN, [INPUT] = OWN,
  [OUTPUT] = OWN,
  [CORRELATION] = OWN, [TURNS] = SESSION, [TOOLS] = SESSION, [THINK] = SESSION,
  [TOOL_TIME] = SESSION, [SYSTEM_TOKENS] = SESSION, [SYSTEM_PROMPTS] = SESSION,
  [BLOCK_TOKENS] = SESSION, [CONTEXT_TOKENS] = SESSION, [TOKEN_TIME] = SESSION, [FROM] = POOL,
};

static const struct kc_cli_usage synth_usage = {
  .name = "trace synth",
  .synopsis = "OUT [options]",
  .about = "Makes a trace: arrivals by a rate, lengths by a preset or a histogram, sessions and\n"
           "agents; or like another trace; or of a pool of clients. OUT may be - for standard\n"
           "output.",
  .options = synth_options,
  .option_count = SYNTH_OPTIONS,
  .positional_min = 1,
  .positional_max = 1,
  .epilogue = "examples:\n"
              "  kvcap trace synth day.csv --rate 5 --duration 1d --diurnal 0.6 --preset code\n"
              "  kvcap trace synth bursty.csv --arrivals gamma --cv 3 --requests 10000\n"
              "  kvcap trace synth agents.csv --preset agent --rate 0.1 --requests 5000\n"
              "  kvcap trace synth twin.csv --like azure.csv --seed 7",
};

/* ---- arguments to a specification ---- */

/* Exact billionths of a decimal within [min, max]; `fallback` when the option was not given. */
static enum kc_err read_nano(const struct synth_arguments *a, enum synth_option option,
                             const char *text, int64_t min, int64_t max, int64_t fallback,
                             int64_t *out, struct kc_diag *diag)
{
  char low[NUMBER_BYTES], high[NUMBER_BYTES];
  *out = fallback;
  if (!a->given[option]) return KC_OK;
  if (kc_parse_decimal_ps(text, strlen(text), KC_NANO, out) && *out >= min && *out <= max) {
    return KC_OK;
  }
  kc_format_fixed(min, 9, low);
  kc_format_fixed(max, 9, high);
  return kc_fail(diag, KC_ERR_USAGE, "--%s is \"%.40s\"; expected a decimal number from %s to %s "
                 "with at most 9 decimals", synth_options[option].key, text, low, high);
}

static enum kc_err read_shape(const struct synth_arguments *a, struct kc_synth_spec *spec,
                              struct kc_diag *diag)
{
  const bool gamma = a->arrivals == KC_GAP_GAMMA;
  const int64_t least = (int64_t)(gamma ? KC_GAMMA_SHAPE_MIN_NANO : KC_WEIBULL_SHAPE_MIN_NANO);
  const int64_t most = (int64_t)(gamma ? KC_GAMMA_SHAPE_MAX_NANO : KC_WEIBULL_SHAPE_MAX_NANO);
  int64_t shape, cv;
  spec->family = (enum kc_gap_family)a->arrivals;
  if (a->arrivals != KC_GAP_GAMMA && a->arrivals != KC_GAP_WEIBULL) {
    if (!a->given[SHAPE] && !a->given[CV]) return KC_OK;
    return kc_fail(diag, KC_ERR_USAGE, "--%s is for --arrivals gamma or weibull",
                   a->given[SHAPE] ? "shape" : "cv");
  }
  if (a->given[SHAPE] == a->given[CV]) {
    return kc_fail(diag, KC_ERR_USAGE, "--arrivals gamma and weibull need --shape or --cv, one of "
                   "them");
  }
  KC_TRY(read_nano(a, SHAPE, a->shape, least, most, KC_NANO, &shape, diag));
  KC_TRY(read_nano(a, CV, a->cv, KC_NANO / 50, 100 * KC_NANO, KC_NANO, &cv, diag));
  spec->shape_nano = a->given[CV] ? kc_gap_shape_of_cv(spec->family, (uint64_t)cv)
                                  : (uint64_t)shape;
  return KC_OK;
}

static enum kc_err read_rate(const struct synth_arguments *a, struct kc_rate_spec *rate,
                             struct kc_diag *diag)
{
  int64_t rate_nhz, diurnal, weekend, factor;
  KC_TRY(read_nano(a, RATE_OF, a->rate, 1, (int64_t)KC_RATE_MAX_NHZ, KC_NANO, &rate_nhz, diag));
  KC_TRY(read_nano(a, DIURNAL, a->diurnal, 0, KC_NANO, 0, &diurnal, diag));
  KC_TRY(read_nano(a, WEEKEND, a->weekend, 0, 10 * KC_NANO, KC_NANO, &weekend, diag));
  KC_TRY(read_nano(a, BURST_FACTOR, a->burst_factor, 0, 1000 * KC_NANO, 5 * KC_NANO, &factor,
                   diag));
  if (a->burst_every_ps == 0 && (a->given[BURST_LENGTH] || a->given[BURST_FACTOR])) {
    return kc_fail(diag, KC_ERR_USAGE, "bursts need --burst-every, the mean time between them");
  }
  if ((a->given[BURST_LENGTH] && a->burst_length_ps == 0) ||
      a->burst_every_ps > (kc_ps)KC_RANDOM_MEAN_MAX) {
    return kc_fail(diag, KC_ERR_USAGE, "bursts last longer than 0 s and come at least every 80 h");
  }
  *rate = (struct kc_rate_spec){
    .rate_nhz = (uint64_t)rate_nhz, .diurnal_nano = (uint64_t)diurnal,
    .weekend_nano = (uint64_t)weekend, .weekly = a->given[DIURNAL] || a->given[WEEKEND],
    .start_ps = a->start_ps, .burst_every_ps = a->burst_every_ps,
    .burst_length_ps = a->given[BURST_LENGTH] ? a->burst_length_ps : 60 * KC_PS_PER_S,
    .burst_factor_nano = (uint64_t)factor};
  if (!a->given[START] || rate->weekly) return KC_OK;
  return kc_fail(diag, KC_ERR_USAGE, "--start matters only with --diurnal or --weekend");
}

static bool is_agent(const struct synth_arguments *a)
{
  return strcmp(a->preset, "agent") == 0;
}

/* A value that was given, else what agents or other sessions get. */
#define PICK(option, field, agent, other) \
  (a->given[option] ? (field) : is_agent(a) ? (agent) : (other))

static enum kc_err read_session(const struct synth_arguments *a, struct kc_session_spec *session,
                                struct kc_diag *diag)
{
  int64_t turns, tools;
  KC_TRY(read_nano(a, TURNS, a->turns, KC_NANO, 10000 * KC_NANO, (is_agent(a) ? 3 : 1) * KC_NANO,
                   &turns, diag));
  KC_TRY(read_nano(a, TOOLS, a->tools, 0, 10000 * KC_NANO, (is_agent(a) ? 8 : 0) * KC_NANO, &tools,
                   diag));
  *session = (struct kc_session_spec){
    .turns_nano = (uint64_t)turns, .tools_nano = (uint64_t)tools,
    .think_ps = PICK(THINK, a->think_ps, 120 * KC_PS_PER_S, 30 * KC_PS_PER_S),
    .tool_ps = PICK(TOOL_TIME, a->tool_ps, 5 * KC_PS_PER_S, 5 * KC_PS_PER_S),
    .system_tokens = PICK(SYSTEM_TOKENS, a->system_tokens, 15000u, 0u),
    .system_prompts = PICK(SYSTEM_PROMPTS, a->system_prompts, 1u, 1u),
    .block_tokens = PICK(BLOCK_TOKENS, a->block_tokens, 64u, 64u),
    .context_tokens = PICK(CONTEXT_TOKENS, a->context_tokens, 200000u, 0u),
    .token_ps = PICK(TOKEN_TIME, a->token_ps, 20 * KC_PS_PER_MS, 20 * KC_PS_PER_MS)};
  const kc_ps longest_ps = (kc_ps)KC_RANDOM_MEAN_MAX / 8; /* a draw is at most 45 means */
  if (session->think_ps > longest_ps || session->tool_ps > longest_ps ||
      session->token_ps > 3600 * KC_PS_PER_S) {
    return kc_fail(diag, KC_ERR_USAGE,
                   "--think and --tool-time are at most 10 h, --token-time 1 h");
  }
  if (session->system_prompts <= 1000000) return KC_OK;
  return kc_fail(diag, KC_ERR_USAGE, "--system-prompts is at most 1,000,000");
}

static enum kc_err load_histogram(struct kc_lengths *lengths, const char *path,
                                  struct kc_diag *diag)
{
  struct kc_file file;
  KC_TRY(kc_file_open(&file, path, LENGTHS_BYTES_MAX, diag));
  const enum kc_err err =
      kc_lengths_parse(lengths, path, file.bytes > 0 ? file.data : "", file.bytes, diag);
  kc_file_close(&file);
  return err;
}

static enum kc_err load_source(struct kc_trace *source, const char *path, struct kc_diag *diag)
{
  struct kc_trace_options options;
  kc_trace_options_default(&options);
  options.zero_output = KC_ZERO_OUTPUT_FLOOR; /* counted, and told with the notes */
  KC_TRY(kc_trace_load(source, path, &options, diag));
  kc_cli_trace_notes(source);
  return KC_OK;
}

static enum kc_err load_lengths(struct kc_lengths *lengths, const char *path, struct kc_diag *diag)
{
  struct kc_trace source;
  KC_TRY(load_source(&source, path, diag));
  const enum kc_err err = kc_lengths_of_trace(lengths, &source, diag);
  kc_trace_free(&source);
  return err;
}

/* The one source of lengths among the options. */
static enum kc_err choose_lengths(const struct synth_arguments *a, struct kc_lengths *lengths,
                                  struct kc_diag *diag)
{
  const char *const preset = a->given[PRESET] ? a->preset : "conversation";
  if (a->given[INPUT]) return kc_lengths_fixed(lengths, a->input_tokens, a->output_tokens, diag);
  if (a->given[LENGTHS]) return load_histogram(lengths, a->lengths, diag);
  if (a->given[LENGTHS_LIKE]) return load_lengths(lengths, a->lengths_like, diag);
  if (kc_lengths_preset(lengths, preset)) return KC_OK;
  return kc_fail(diag, KC_ERR_USAGE, "--preset is \"%.40s\"; expected conversation, code, "
                 "reasoning or agent", preset);
}

static enum kc_err read_lengths(const struct synth_arguments *a, struct kc_lengths *lengths,
                                struct kc_diag *diag)
{
  const bool fixed = a->given[INPUT] || a->given[OUTPUT];
  int64_t correlation;
  if (a->given[PRESET] + a->given[LENGTHS] + a->given[LENGTHS_LIKE] + fixed > 1) {
    return kc_fail(diag, KC_ERR_USAGE, "lengths come from one of --preset, --lengths, "
                   "--lengths-like, and --input with --output");
  }
  if (a->given[INPUT] != a->given[OUTPUT]) {
    return kc_fail(diag, KC_ERR_USAGE, "--input and --output go together");
  }
  KC_TRY(choose_lengths(a, lengths, diag));
  KC_TRY(read_nano(a, CORRELATION, a->correlation, -KC_NANO, KC_NANO, lengths->correlation_nano,
                   &correlation, diag));
  if (a->given[CORRELATION] && lengths->pair.count > 0) {
    return kc_fail(diag, KC_ERR_USAGE, "--correlation is for lengths that are drawn apart; these "
                   "come in pairs");
  }
  lengths->correlation_nano = correlation;
  return KC_OK;
}

/* ---- sources ---- */

static enum kc_err make_own(const struct synth_arguments *a, unsigned source,
                            struct kc_trace *trace, struct kc_diag *diag)
{
  struct kc_lengths lengths = {0};
  struct kc_synth_spec spec = {.seed = a->seed, .duration_ps = a->duration_ps,
                               .lengths = &lengths};
  spec.rows = a->given[REQUESTS] ? a->requests : a->given[DURATION] ? 0 : 1000;
  KC_TRY(read_shape(a, &spec, diag));
  KC_TRY(read_rate(a, &spec.rate, diag));
  if (source == SESSION) KC_TRY(read_session(a, &spec.session, diag));
  enum kc_err err = read_lengths(a, &lengths, diag);
  if (err == KC_OK) {
    err = source == SESSION ? kc_synth_sessions(trace, &spec, diag)
                            : kc_synth_rows(trace, &spec, diag);
  }
  kc_lengths_free(&lengths);
  return err;
}

/* One line of both: "rate 5.53 requests/s, the source 5.53". Values in 10^-decimals. */
static void compare(const char *name, int64_t made, int64_t source, unsigned decimals)
{
  char made_text[NUMBER_BYTES], source_text[NUMBER_BYTES];
  kc_format_fixed(made, decimals, made_text);
  kc_format_fixed(source, decimals, source_text);
  kc_cli_note("%s %s, the source %s", name, made_text, source_text);
}

static int64_t reuse_ppm(const struct kc_trace_reuse *reuse)
{
  const uint64_t blocks = reuse->blocks > 0 ? reuse->blocks : 1;
  return (int64_t)kc_muldiv_round(reuse->blocks_reused, 1000000, blocks);
}

/* How alike they came out, for the reader to judge. */
static enum kc_err tell_likeness(const struct kc_trace *trace, const struct kc_trace *source,
                                 struct kc_diag *diag)
{
  struct kc_trace_stats made, wanted;
  struct kc_trace_reuse made_reuse, wanted_reuse;
  KC_TRY(kc_trace_stats_compute(trace, &made, diag));
  KC_TRY(kc_trace_stats_compute(source, &wanted, diag));
  compare("requests per second:", (int64_t)made.rate_micro, (int64_t)wanted.rate_micro, 6);
  compare("variation of the gaps:", (int64_t)made.gap_cv_ppm, (int64_t)wanted.gap_cv_ppm, 6);
  compare("requests in the busiest 10 s:", (int64_t)made.peak_10s_rows,
          (int64_t)wanted.peak_10s_rows, 0);
  compare("median input tokens:", made.input.p50, wanted.input.p50, 0);
  compare("input tokens at p99:", made.input.p99, wanted.input.p99, 0);
  compare("median output tokens:", made.output.p50, wanted.output.p50, 0);
  compare("output tokens at p99:", made.output.p99, wanted.output.p99, 0);
  compare("correlation of the lengths:", made.pearson_ppm, wanted.pearson_ppm, 6);
  if (!source->prefix_ids) return KC_OK;
  KC_TRY(kc_trace_reuse(trace, &made_reuse, diag));
  KC_TRY(kc_trace_reuse(source, &wanted_reuse, diag));
  compare("share of blocks reused:", reuse_ppm(&made_reuse), reuse_ppm(&wanted_reuse), 6);
  return KC_OK;
}

static enum kc_err make_like(const struct synth_arguments *a, struct kc_trace *trace,
                             struct kc_diag *diag)
{
  struct kc_trace source;
  KC_TRY(load_source(&source, a->like, diag));
  if (source.session_count > 0) {
    kc_cli_note("the sessions of %s are not modelled; its requests are taken as they arrived",
                a->like);
  }
  enum kc_err err =
      kc_synth_like(trace, &source, a->seed, a->given[REQUESTS] ? a->requests : 0, diag);
  if (err == KC_OK) {
    err = tell_likeness(trace, &source, diag);
    if (err != KC_OK) kc_trace_free(trace);
  }
  kc_trace_free(&source);
  return err;
}

static enum kc_err make_pool(const struct synth_arguments *a, struct kc_trace *trace,
                             struct kc_diag *diag)
{
  struct kc_client_pool pool;
  struct kc_pool_spec spec = {.seed = a->seed, .rows = a->given[REQUESTS] ? a->requests : 0,
                              .from_ps = a->from_ps, .duration_ps = a->duration_ps};
  int64_t rate_nhz;
  KC_TRY(read_nano(a, RATE_OF, a->rate, 1, (int64_t)KC_RATE_MAX_NHZ, 0, &rate_nhz, diag));
  spec.rate_nhz = (uint64_t)rate_nhz;
  KC_TRY(kc_client_pool_load(&pool, a->pool, diag));
  if (pool.without_lengths > 0) {
    kc_cli_note("%" PRIu64 " of %" PRIu64 " clients left out: their lengths are missing",
                pool.without_lengths, pool.without_lengths + pool.count);
  }
  const enum kc_err err = kc_synth_pool(trace, &pool, &spec, diag);
  kc_client_pool_free(&pool);
  return err;
}

static enum kc_err choose_source(const struct synth_arguments *a, unsigned *source,
                                 struct kc_diag *diag)
{
  if (a->given[LIKE_FILE] && a->given[POOL_FOLDER]) {
    return kc_fail(diag, KC_ERR_USAGE, "--like and --servegen are two sources; take one");
  }
  *source = a->given[LIKE_FILE] ? LIKE : a->given[POOL_FOLDER] ? POOL : RATE;
  for (unsigned i = 0; *source == RATE && i < SYNTH_OPTIONS; i++) {
    if (a->given[i] && applies_to[i] == SESSION) *source = SESSION;
  }
  if (*source == RATE && is_agent(a)) *source = SESSION;
  for (unsigned i = 0; i < SYNTH_OPTIONS; i++) {
    if (!a->given[i] || (applies_to[i] & *source) != 0) continue;
    return kc_fail(diag, KC_ERR_USAGE, "--%s does not apply to %s; leave it out",
                   synth_options[i].key, *source == LIKE ? "--like"
                   : *source == POOL ? "--servegen" : "a trace that is not made of a pool");
  }
  if (a->given[DURATION] && a->duration_ps == 0) {
    return kc_fail(diag, KC_ERR_USAGE, "--duration is 0; nothing can arrive");
  }
  return KC_OK;
}

/* ---- the whole ---- */

static int tell(const struct kc_trace *trace, const struct synth_arguments *a, const char *out)
{
  if (!a->json) {
    char span[NUMBER_BYTES];
    kc_format_fixed(trace->span_ps / KC_PS_PER_MS, 3, span);
    kc_cli_note("%" PRIu64 " rows over %s s, %" PRIu64 " input and %" PRIu64 " output tokens, seed "
                "%" PRIu64, trace->count, span, trace->input_tokens, trace->output_tokens, a->seed);
    return 0;
  }
  return kc_cli_print_json(json_pack(
      "{s:i, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "schema", SYNTH_SCHEMA, "path",
      kc_cli_json_string(out), "rows", (json_int_t)trace->count, "span_ps",
      (json_int_t)trace->span_ps, "input_tokens",
      (json_int_t)trace->input_tokens, "output_tokens", (json_int_t)trace->output_tokens,
      "sessions", (json_int_t)trace->session_count, "prefix_ids",
      (json_int_t)trace->block_distinct, "seed", (json_int_t)a->seed));
}

static enum kc_err make(const struct synth_arguments *a, struct kc_trace *trace,
                        struct kc_diag *diag)
{
  unsigned source = RATE;
  KC_TRY(choose_source(a, &source, diag));
  if (source == LIKE) return make_like(a, trace, diag);
  if (source == POOL) return make_pool(a, trace, diag);
  return make_own(a, source, trace, diag);
}

int kc_cmd_trace_synth(int argc, char **argv)
{
  KC_ASSERT(argc >= 1);
  struct synth_arguments arguments = {0};
  struct kc_trace trace;
  struct kc_diag diag;
  const char *out;
  const int status = kc_cli_arguments(&synth_usage, &arguments, argc, argv, &out, NULL);
  if (status >= 0) return status;
  if (arguments.json && strcmp(out, "-") == 0) {
    kc_fail(&diag, KC_ERR_USAGE, "--json and an output on - would mix on standard output; name a "
            "file");
    return kc_cli_fail(&diag);
  }
  const char *const sources[] = {arguments.like, arguments.pool, arguments.lengths,
                                 arguments.lengths_like};
  if (kc_cli_trace_output_check(out, sources, sizeof sources / sizeof sources[0], &diag) != KC_OK ||
      make(&arguments, &trace, &diag) != KC_OK) {
    return kc_cli_fail(&diag);
  }
  const enum kc_err err =
      kc_cli_trace_write(&trace, (enum kc_export_format)arguments.to, out, &diag);
  const int told = err == KC_OK ? tell(&trace, &arguments, out) : kc_cli_fail(&diag);
  kc_trace_free(&trace);
  return told;
}
