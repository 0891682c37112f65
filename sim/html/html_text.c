/* Escaping, and numbers as people read them. */
#include "sim/html/html_text.h"

#include <math.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"

void kc_html_text(FILE *out, const char *text)
{
  KC_ASSERT(out != NULL);
  KC_ASSERT(text != NULL);
  for (const char *c = text; *c != '\0'; c++) {
    switch (*c) {
    case '&': fputs("&amp;", out); break;
    case '<': fputs("&lt;", out); break;
    case '>': fputs("&gt;", out); break;
    case '"': fputs("&quot;", out); break;
    case '\'': fputs("&#39;", out); break;
    default: fputc(*c, out);
    }
  }
}

static int decimals_of(double value, enum kc_rounding rounding)
{
  const double size = fabs(value);
  switch (rounding) {
  case KC_ROUND_COUNT: return 0;
  case KC_ROUND_TENTH: return 1;
  case KC_ROUND_READING: return size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  case KC_ROUND_MONEY: return size >= 0.9995 || size == 0 ? 2 : size >= 0.01 ? 3 : 5;
  }
  return 0;
}

const char *kc_html_number(char out[KC_HTML_NUMBER_BYTES], double value, enum kc_rounding rounding)
{
  KC_ASSERT(isfinite(value));
  char plain[KC_HTML_NUMBER_BYTES / 4 * 3 + 20]; /* the largest double has 309 digits */
  snprintf(plain, sizeof plain, "%.*f", decimals_of(value, rounding), value);
  if (strspn(plain, "-0.") == strlen(plain) && plain[0] == '-') memmove(plain, plain + 1,
                                                                        strlen(plain));
  const size_t sign = plain[0] == '-' ? 1 : 0;
  const size_t whole = strcspn(plain + sign, ".");
  size_t used = 0;
  if (sign > 0) out[used++] = '-';
  for (size_t i = 0; i < whole; i++) {
    if (i > 0 && (whole - i) % 3 == 0 && used + 1 < KC_HTML_NUMBER_BYTES) out[used++] = ',';
    if (used + 1 < KC_HTML_NUMBER_BYTES) out[used++] = plain[sign + i];
  }
  snprintf(out + used, KC_HTML_NUMBER_BYTES - used, "%s", plain + sign + whole);
  return out;
}

void kc_html_figure(FILE *out, const char *tag, const char *class, struct kc_html_source source,
                    const char *figure, const char *value, enum kc_rounding rounding)
{
  KC_ASSERT(source.kind != NULL && source.id != NULL);
  char text[KC_HTML_NUMBER_BYTES];
  double number = 0;
  const bool known = value != NULL && kc_parse_double(value, strlen(value), &number);
  fprintf(out, "<%s", tag);
  if (class[0] != '\0') fprintf(out, " class=\"%s\"", class);
  if (known) {
    fprintf(out, " data-%s=\"", source.kind);
    kc_html_text(out, source.id);
    fputs("\" data-figure=\"", out);
    kc_html_text(out, figure);
    fputs("\" data-value=\"", out);
    kc_html_text(out, value);
    fputc('"', out);
  }
  fprintf(out, ">%s</%s>", known ? kc_html_number(text, number, rounding) : "–", tag);
}
