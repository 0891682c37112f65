/* A table of first bytes. People hand over what their download left behind: a git-lfs pointer, a
 * saved "moved here" page, an archive. Each is named, because "column TIMESTAMP is missing" sends
 * nobody in the right direction. No memory is owned; nothing is remembered. */
#include "traces/readers/trace_sniff.h"

#include <string.h>

#include "engine/base/check.h"

struct magic {
  const char *bytes;
  size_t count;
  size_t offset;   /* where they stand */
  bool any_case;   /* letters match either case, and white space before them is skipped */
  const char *sentence;
};

#define MAGIC(text, offset, any_case, sentence) {text, sizeof(text) - 1, offset, any_case, sentence}

static const char html_sentence[] =
    "an HTML page, not a trace: the download saved an error or redirect page; fetch it again "
    "(curl needs -L to follow redirects)";
static const char xml_sentence[] = "an XML document, not a trace; expected CSV with a header line";
static const char json_sentence[] =
    "a JSON array, which no reader of this program takes; expected one object a line, a document "
    "that is an object, or CSV with a header line";
static const char utf16_sentence[] =
    "UTF-16 text; save it as UTF-8 (iconv -f UTF-16 -t UTF-8 turns it)";

static const struct magic magics[] = {
    MAGIC("version https://git-lfs.github.com/spec/", 0, false,
          "a git-lfs pointer, not the data: run `git lfs pull` in the repository it came from"),
    MAGIC("<!doctype", 0, true, html_sentence),
    MAGIC("<html", 0, true, html_sentence),
    MAGIC("<head", 0, true, html_sentence),
    MAGIC("<body", 0, true, html_sentence),
    MAGIC("<?xml", 0, true, xml_sentence),
    MAGIC("[", 0, true, json_sentence),
    MAGIC("\xff\xfe", 0, false, utf16_sentence),
    MAGIC("\xfe\xff", 0, false, utf16_sentence),
    MAGIC("\x28\xb5\x2f\xfd", 0, false,
          "compressed by zstd; unpack it first (zstd -d), or use gzip"),
    MAGIC("\xfd" "7zXZ", 0, false, "compressed by xz; unpack it first (xz -d), or use gzip"),
    MAGIC("BZh", 0, false, "compressed by bzip2; unpack it first (bzip2 -d), or use gzip"),
    MAGIC("PK\x03\x04", 0, false, "a zip archive; unpack it first (unzip)"),
    MAGIC("SQLite format 3", 0, false,
          "a database; kvcap db, compare and report read those that this program wrote"),
    MAGIC("PAR1", 0, false, "a Parquet file; export it as CSV first"),
    MAGIC("ustar", 257, false, "a tar archive; unpack it first (tar -xf)"),
};

static bool is_white(char c)
{
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static char lower(char c)
{
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool magic_matches(const struct magic *magic, const char *data, size_t bytes)
{
  size_t at = magic->offset;
  KC_ASSERT(magic->count > 0);
  while (magic->any_case && at < bytes && is_white(data[at])) at++;
  if (bytes < at || bytes - at < magic->count) return false;
  for (size_t i = 0; i < magic->count; i++) {
    const char c = magic->any_case ? lower(data[at + i]) : data[at + i];
    if (c != magic->bytes[i]) return false;
  }
  return true;
}

/* ---- a client of a ServeGen pool ----
 *
 *   chunk-7-trace.csv      0,0.105,0.925,Gamma,1.168,8.055     window, rate, variation, family, ...
 *   chunk-7-dataset.json   {"0": {"input_tokens": "{39: 0.0003, 40: 0.0001, ...}", ...}, ...} */

static const char servegen_sentence[] =
    "a client of a ServeGen pool (rates and lengths, not requests); make requests of its folder "
    "with `kvcap trace synth OUT --servegen FOLDER`";

static const char *skip_white(const char *at, const char *end)
{
  while (at < end && is_white(*at)) at++;
  return at;
}

/* Moves *at behind `text` if it is there, spaces before it skipped. */
static bool take(const char **at, const char *end, const char *text)
{
  const size_t bytes = strlen(text);
  const char *const from = skip_white(*at, end);
  if ((size_t)(end - from) < bytes || memcmp(from, text, bytes) != 0) return false;
  *at = from + bytes;
  return true;
}

static size_t take_digits(const char **at, const char *end)
{
  const char *const from = *at;
  while (*at < end && **at >= '0' && **at <= '9') (*at)++;
  return (size_t)(*at - from);
}

static bool is_client_lengths(const char *at, const char *end)
{
  if (!take(&at, end, "{") || !take(&at, end, "\"") || take_digits(&at, end) == 0) return false;
  if (!take(&at, end, "\"") || !take(&at, end, ":") || !take(&at, end, "{")) return false;
  return take(&at, end, "\"input_tokens\"") || take(&at, end, "\"text_tokens\"");
}

/* Six cells, the fourth a word or nothing, the others numbers. */
static bool is_client_windows(const char *at, const char *end)
{
  unsigned cell = 0;
  if (take_digits(&at, end) == 0) return false;
  for (; at < end && *at != '\n' && *at != '\r'; at++) {
    const bool number = (*at >= '0' && *at <= '9') || *at == '.' || *at == '-' || *at == 'e';
    const bool letter = lower(*at) >= 'a' && lower(*at) <= 'z';
    cell += *at == ',';
    if (*at != ',' && !(cell == 3 ? letter : number)) return false;
  }
  return cell == 5 && at < end;
}

const char *kc_trace_sniff(const char *data, size_t bytes)
{
  enum { HEAD_BYTES = 512 };
  KC_ASSERT(data != NULL || bytes == 0);
  if (bytes >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) { /* byte-order mark of UTF-8 */
    data += 3;
    bytes -= 3;
  }
  const size_t head = bytes < HEAD_BYTES ? bytes : HEAD_BYTES;
  if (head == 0) return NULL; /* and `data` may be NULL */
  for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
    if (magic_matches(&magics[i], data, head)) return magics[i].sentence;
  }
  const bool client = is_client_lengths(data, data + head) || is_client_windows(data, data + head);
  return client ? servegen_sentence : NULL;
}

bool kc_trace_is_gzip(const char *data, size_t bytes)
{
  return bytes >= 2 && memcmp(data, "\x1f\x8b", 2) == 0;
}
