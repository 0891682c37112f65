/* The two files of a ServeGen client.
 *
 *   trace    0,1.3316666666666668,8.598383725990791,Weibull,0.3753486140101707,0.3967677807107179
 *            600,0,0,,0,0                              an idle window: the family is empty
 *   dataset  {"0": {"input_tokens": "{81: 0.00145, 82: 0.0157}", "output_tokens": "{5: 1.0}"},
 *             "21600": {"input_tokens": "{}", "output_tokens": "{}"}}
 *
 * The rate and the shape decide; CV and scale say the same again (the scale disagrees with the rate
 * in the published files) and are only checked to be numbers. A strict scanner over the bytes: no
 * recursion, no copy; each distribution grows one array of points. */
#include <stdlib.h>
#include <string.h>

#include "traces/synth/decimal_scan.h"
#include "traces/synth/servegen.h"

struct scanner {
  const char *path;
  struct kc_diag *diag;
  const char *start, *at, *end; /* of the line, or of the document */
  uint64_t line;                /* 0 in a document on one line */
};

static enum kc_err fail(const struct scanner *s, const char *sentence)
{
  return kc_fail_at(s->diag, KC_ERR_INPUT, s->path, s->line > 0 ? s->line : 1,
                    (uint32_t)(s->at - s->start) + 1, "%s", sentence);
}

static enum kc_err fail_memory(const struct scanner *s)
{
  return kc_fail(s->diag, KC_ERR_MEMORY, "the host ran out of memory");
}

/* Room for one more element behind `count`, doubling at powers of two; NULL when memory ran out. */
static void *grow(void *array, size_t count, size_t size)
{
  if (count > 0 && (count < 16 || (count & (count - 1)) != 0)) return array;
  const size_t capacity = count < 16 ? 16 : 2 * count;
  return realloc(array, capacity * size);
}

/* ---- windows ---- */

static bool take(struct scanner *s, char c)
{
  if (s->at == s->end || *s->at != c) return false;
  s->at++;
  return true;
}

/* The family's name up to the comma. */
static enum kc_err read_family(struct scanner *s, enum kc_gap_family *family)
{
  static const struct {
    const char *name;
    enum kc_gap_family family;
  } known[] = {{"", KC_GAP_POISSON}, {"Gamma", KC_GAP_GAMMA}, {"Weibull", KC_GAP_WEIBULL},
               {"Exponential", KC_GAP_POISSON}, {"Poisson", KC_GAP_POISSON}};
  const char *comma = memchr(s->at, ',', (size_t)(s->end - s->at));
  const size_t bytes = comma == NULL ? 0 : (size_t)(comma - s->at);
  for (size_t i = 0; comma != NULL && i < sizeof known / sizeof known[0]; i++) {
    if (strlen(known[i].name) != bytes || memcmp(known[i].name, s->at, bytes) != 0) continue;
    *family = known[i].family;
    s->at = comma;
    return KC_OK;
  }
  return fail(s, "expected a family of gaps: Gamma, Weibull, Exponential, Poisson or nothing");
}

static bool shape_allowed(const struct kc_client_window *window)
{
  const uint64_t shape = window->shape_nano;
  if (window->rate_nhz == 0 || window->family == KC_GAP_POISSON) return true;
  if (window->family == KC_GAP_GAMMA) {
    return shape >= KC_GAMMA_SHAPE_MIN_NANO && shape <= KC_GAMMA_SHAPE_MAX_NANO;
  }
  return shape >= KC_WEIBULL_SHAPE_MIN_NANO && shape <= KC_WEIBULL_SHAPE_MAX_NANO;
}

static enum kc_err read_window(struct scanner *s, struct kc_client_window *window)
{
  const char *const six = "expected six cells: start_s,rate,cv,family,shape,scale";
  const char *const shape_at = s->at;
  uint64_t start, ignored;
  if (!kc_scan_decimal(&s->at, s->end, 12, &start) || start >= (uint64_t)KC_PS_NEVER ||
      !take(s, ',')) return fail(s, six);
  if (!kc_scan_decimal(&s->at, s->end, 9, &window->rate_nhz) || !take(s, ',')) return fail(s, six);
  if (window->rate_nhz > KC_RATE_MAX_NHZ) return fail(s, "the rate passes 1,000,000 per second");
  if (!kc_scan_decimal(&s->at, s->end, 9, &ignored) || !take(s, ',')) return fail(s, six);
  KC_TRY(read_family(s, &window->family));
  if (!take(s, ',') || !kc_scan_decimal(&s->at, s->end, 9, &window->shape_nano) || !take(s, ',') ||
      !kc_scan_decimal(&s->at, s->end, 9, &ignored) || s->at != s->end) return fail(s, six);
  window->start_ps = (kc_ps)start;
  if (shape_allowed(window)) return KC_OK;
  s->at = shape_at;
  return fail(s, "the shape is out of range: 0.0001 to 10,000 for Gamma, 0.1 to 100 for Weibull");
}

enum kc_err kc_client_read_windows(struct kc_client *client, const char *path, const char *data,
                                   size_t bytes, struct kc_diag *diag)
{
  struct scanner s = {.path = path, .diag = diag};
  KC_ASSERT(client->window == NULL);
  for (const char *at = data, *end = data + bytes; at < end;) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    s.start = s.at = at;
    s.end = stop == NULL ? end : stop;
    s.line++;
    at = stop == NULL ? end : stop + 1;
    if (s.end > s.start && s.end[-1] == '\r') s.end--;
    if (s.start == s.end) continue;
    struct kc_client_window window = {0};
    KC_TRY(read_window(&s, &window));
    const size_t count = client->window_count;
    if (count > 0 && window.start_ps <= client->window[count - 1].start_ps) {
      s.at = s.start;
      return fail(&s, "a window starts no later than the one before; expected rising starts");
    }
    if (count == KC_SERVEGEN_WINDOWS_MAX) return fail(&s, "the file has more than 2^20 windows");
    void *grown = grow(client->window, count, sizeof window);
    if (grown == NULL) return fail_memory(&s);
    client->window = grown;
    client->window[client->window_count++] = window;
  }
  if (client->window_count > 0) return KC_OK;
  s.start = s.at = data;
  return fail(&s, "the file has no windows");
}

/* ---- lengths ---- */

static void skip_space(struct scanner *s)
{
  while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t')) {
    s->at++;
  }
}

static bool take_token(struct scanner *s, char c)
{
  skip_space(s);
  const bool taken = take(s, c);
  skip_space(s);
  return taken;
}

/* The inside of a string without escapes. */
static enum kc_err read_string(struct scanner *s, const char **text, size_t *bytes)
{
  skip_space(s);
  if (!take(s, '"')) return fail(s, "expected a string in double quotes");
  const char *quote = memchr(s->at, '"', (size_t)(s->end - s->at));
  if (quote == NULL) return fail(s, "a string is not closed");
  if (memchr(s->at, '\\', (size_t)(quote - s->at)) != NULL) {
    return fail(s, "escapes are not expected in this string");
  }
  *text = s->at;
  *bytes = (size_t)(quote - s->at);
  s->at = quote + 1;
  return KC_OK;
}

static int by_tokens(const void *a, const void *b)
{
  const struct kc_length_point *const x = a, *const y = b;
  if (x->tokens != y->tokens) return x->tokens < y->tokens ? -1 : 1;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* "81: 0.00145": the weight is the probability in 10^-12. */
static enum kc_err read_point(struct scanner *s, struct kc_length_point *point)
{
  const uint64_t certain = UINT64_C(1000000000000);
  uint64_t tokens;
  if (!kc_scan_decimal(&s->at, s->end, 0, &tokens) || tokens > UINT32_MAX) {
    return fail(s, "expected a number of tokens from 0 to 4,294,967,295");
  }
  if (!take_token(s, ':')) return fail(s, "expected \":\" after the number of tokens");
  if (!kc_scan_decimal(&s->at, s->end, 12, &point->rank) || point->rank > certain) {
    return fail(s, "expected a probability from 0 to 1");
  }
  point->tokens = (uint32_t)tokens;
  return KC_OK;
}

/* "{81: 0.00145, 82: 0.0157}" within a string; without any weight the side stays empty. */
static enum kc_err read_points(struct scanner *s, struct kc_client_lengths *lengths, unsigned side)
{
  if (lengths->point[side] != NULL) return fail(s, "the distribution is given twice");
  if (!take_token(s, '{')) return fail(s, "expected \"{\", the start of a distribution");
  uint64_t total = 0;
  for (bool more = !take_token(s, '}'); more;) {
    struct kc_length_point point = {0};
    KC_TRY(read_point(s, &point));
    const size_t count = lengths->count[side];
    if (count == KC_LENGTH_POINTS_MAX) return fail(s, "a distribution has more than 2^22 lengths");
    void *grown = grow(lengths->point[side], count, sizeof point);
    if (grown == NULL) return fail_memory(s);
    lengths->point[side] = grown;
    if (point.rank > 0) lengths->point[side][lengths->count[side]++] = point;
    total += point.rank;
    more = take_token(s, ',');
    if (!more && !take_token(s, '}')) return fail(s, "expected \",\" or \"}\" in a distribution");
  }
  if (s->at != s->end) return fail(s, "the string goes on after its distribution");
  KC_ASSERT((total == 0) == (lengths->count[side] == 0));
  if (total == 0) return KC_OK;
  qsort(lengths->point[side], lengths->count[side], sizeof **lengths->point, by_tokens);
  kc_ranks_of_weights(lengths->point[side], lengths->count[side]);
  return KC_OK;
}

static bool is_text(const char *text, size_t bytes, const char *wanted)
{
  return strlen(wanted) == bytes && memcmp(text, wanted, bytes) == 0;
}

/* {"input_tokens": "{...}", "output_tokens": "{...}", "reason_ratio": ...} */
static enum kc_err read_distributions(struct scanner *s, struct kc_client *client,
                                      struct kc_client_lengths *lengths)
{
  if (!take_token(s, '{')) return fail(s, "expected \"{\", the distributions of a window");
  for (bool more = !take_token(s, '}'); more;) {
    const char *name, *text;
    size_t name_bytes, text_bytes;
    KC_TRY(read_string(s, &name, &name_bytes));
    if (!take_token(s, ':')) return fail(s, "expected \":\" after a name");
    KC_TRY(read_string(s, &text, &text_bytes));
    const bool input = is_text(name, name_bytes, "input_tokens") ||
                       is_text(name, name_bytes, "text_tokens");
    if (input || is_text(name, name_bytes, "output_tokens")) {
      struct scanner inner = *s;
      inner.at = text;
      inner.end = text + text_bytes;
      KC_TRY(read_points(&inner, lengths, input ? 0 : 1));
    } else {
      client->ignored_keys++;
    }
    more = take_token(s, ',');
    if (!more && !take_token(s, '}')) return fail(s, "expected \",\" or \"}\" after a string");
  }
  return KC_OK;
}

static enum kc_err read_entry(struct scanner *s, struct kc_client *client)
{
  const char *text;
  size_t bytes;
  uint64_t start;
  KC_TRY(read_string(s, &text, &bytes));
  const char *at = text;
  if (!kc_scan_decimal(&at, text + bytes, 12, &start) || at != text + bytes ||
      start >= (uint64_t)KC_PS_NEVER) {
    return fail(s, "expected the start of a window in seconds as the name");
  }
  if (!take_token(s, ':')) return fail(s, "expected \":\" after the start of a window");
  if (client->lengths_count == KC_SERVEGEN_WINDOWS_MAX) {
    return fail(s, "the file has more than 2^20 windows");
  }
  void *grown = grow(client->lengths, client->lengths_count, sizeof *client->lengths);
  if (grown == NULL) return fail_memory(s);
  client->lengths = grown;
  struct kc_client_lengths *const lengths = &client->lengths[client->lengths_count++];
  *lengths = (struct kc_client_lengths){.start_ps = (kc_ps)start};
  return read_distributions(s, client, lengths);
}

static int by_start(const void *a, const void *b)
{
  const struct kc_client_lengths *const x = a, *const y = b;
  return x->start_ps < y->start_ps ? -1 : x->start_ps > y->start_ps;
}

enum kc_err kc_client_read_lengths(struct kc_client *client, const char *path, const char *data,
                                   size_t bytes, struct kc_diag *diag)
{
  struct scanner s = {.path = path, .diag = diag, .start = data, .at = data, .end = data + bytes};
  KC_ASSERT(client->lengths == NULL);
  if (!take_token(&s, '{')) return fail(&s, "expected \"{\", the start of a JSON object");
  for (bool more = !take_token(&s, '}'); more;) {
    KC_TRY(read_entry(&s, client));
    more = take_token(&s, ',');
    if (!more && !take_token(&s, '}')) return fail(&s, "expected \",\" or \"}\" after a window");
  }
  if (s.at != s.end) return fail(&s, "the file goes on after its JSON object");
  if (client->lengths_count == 0) return KC_OK;
  qsort(client->lengths, client->lengths_count, sizeof *client->lengths, by_start);
  for (size_t i = 1; i < client->lengths_count; i++) {
    if (client->lengths[i].start_ps > client->lengths[i - 1].start_ps) continue;
    s.at = s.start;
    return fail(&s, "two windows of lengths start at the same time");
  }
  return KC_OK;
}

void kc_client_free(struct kc_client *client)
{
  for (size_t i = 0; i < client->lengths_count; i++) {
    free(client->lengths[i].point[0]);
    free(client->lengths[i].point[1]);
  }
  free(client->lengths);
  free(client->window);
  *client = (struct kc_client){0};
}
