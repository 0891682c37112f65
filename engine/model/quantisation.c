/* Reads `quantization_config` and answers, for one module name, whether it was left alone.
 *
 *   exempt: [ "lm_head", "model.layers.*.mlp.router", "re:.*self_attn.*", ... ]
 *              |            `- '*' stands for any run of characters
 *              |                                       `- a regular expression anchored at the
 * start
 *              `- a run of whole dotted parts of the module's name
 *
 * Hugging Face and vLLM match plain entries as prefix, suffix or substring, each in its own way; a
 * run of whole dotted parts is the common denominator of the published lists ("gate" must not match
 * "gate_proj"). Expressions follow compressed-tensors, which uses Python's re.match; POSIX extended
 * syntax reads them alike once `(?:` is a plain group. Repetition counts and back-references are
 * refused, because they let a small file cost unbounded memory.
 *
 * The struct owns the compiled expressions; names stay in the JSON document, which outlives it.
 */
#include "engine/model/quantisation.h"

#include <string.h>

#include "engine/base/check.h"

enum { PARTS_MAX = 16 };

static const char METHODS[] = "fp8, compressed-tensors, mxfp4, modelopt, gptq, awq";

static const char *text_of(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));
  return text == NULL ? "" : text;
}

static json_int_t number_of(const json_t *object, const char *key)
{
  return json_integer_value(json_object_get(object, key)); /* 0 when it is no number */
}

/* ---- formats ---- */

static enum kc_weight_format int4_format(struct kc_hf *hf, json_int_t group)
{
  switch (group) {
  case 32: return KC_WEIGHT_INT4_G32;
  case 64: return KC_WEIGHT_INT4_G64;
  case 128: return KC_WEIGHT_INT4_G128;
  default: break;
  }
  (void)kc_hf_fail(hf, "quantization_config",
                   "has 4-bit groups of %" JSON_INTEGER_FORMAT ", expected 32, 64 or 128", group);
  return KC_WEIGHT_DEFAULT;
}

static enum kc_weight_format fp8_format(struct kc_hf *hf, const json_t *config, const char *key)
{
  const json_t *block = json_object_get(config, key);
  if (!json_is_array(block)) return KC_WEIGHT_FP8;
  const bool known = json_array_size(block) == 2 &&
                     json_integer_value(json_array_get(block, 0)) == 128 &&
                     json_integer_value(json_array_get(block, 1)) == 128;
  if (known) return KC_WEIGHT_FP8_BLOCK;
  (void)kc_hf_fail(hf, "quantization_config",
                   "has a \"%s\" that is not [128, 128], the only block size known", key);
  return KC_WEIGHT_DEFAULT;
}

/* compressed-tensors: the scheme of the first group stands for all of them. */
static enum kc_weight_format compressed_format(struct kc_hf *hf, const json_t *config)
{
  json_t *groups = json_object_get(config, "config_groups");
  void *first = json_object_iter(groups);
  const json_t *weights =
      first == NULL ? NULL : json_object_get(json_object_iter_value(first), "weights");
  if (!json_is_object(weights)) {
    (void)kc_hf_fail(hf, "quantization_config.config_groups",
                     "has no group with \"weights\", expected num_bits, type and group_size there");
    return KC_WEIGHT_DEFAULT;
  }
  const json_int_t bits = number_of(weights, "num_bits");
  const json_int_t group = number_of(weights, "group_size");
  const bool is_float = strcmp(text_of(weights, "type"), "float") == 0;
  if (bits == 4 && !is_float) return int4_format(hf, group);
  if (bits == 4 && group == 16) return KC_WEIGHT_NVFP4;
  if (bits == 4 && group == 32) return KC_WEIGHT_MXFP4;
  if (bits == 8 && !is_float) return KC_WEIGHT_INT8;
  if (bits == 8) return fp8_format(hf, weights, "block_structure");
  (void)kc_hf_fail(hf, "quantization_config",
                   "asks for %" JSON_INTEGER_FORMAT
                   "-bit %s weights in groups of %" JSON_INTEGER_FORMAT
                   ", which is not a known format (%s)",
                   bits, is_float ? "float" : "int", group, kc_weight_format_names());
  return KC_WEIGHT_DEFAULT;
}

static enum kc_weight_format modelopt_format(struct kc_hf *hf, const json_t *config)
{
  const char *algorithm = text_of(config, "quant_algo");
  if (strcmp(algorithm, "NVFP4") == 0) return KC_WEIGHT_NVFP4;
  if (strcmp(algorithm, "FP8") == 0) return KC_WEIGHT_FP8;
  (void)kc_hf_fail(hf, "quantization_config.quant_algo", "is \"%.40s\", expected NVFP4 or FP8",
                   algorithm);
  return KC_WEIGHT_DEFAULT;
}

static enum kc_weight_format gptq_format(struct kc_hf *hf, const json_t *config)
{
  const json_int_t bits = number_of(config, "bits");
  if (bits == 4) return int4_format(hf, number_of(config, "group_size"));
  if (bits == 8) return KC_WEIGHT_INT8;
  (void)kc_hf_fail(hf, "quantization_config.bits", "is %" JSON_INTEGER_FORMAT ", expected 4 or 8",
                   bits);
  return KC_WEIGHT_DEFAULT;
}

static enum kc_weight_format read_format(struct kc_hf *hf, const json_t *config)
{
  const char *method = text_of(config, "quant_method");
  if (strcmp(method, "fp8") == 0) return fp8_format(hf, config, "weight_block_size");
  if (strcmp(method, "compressed-tensors") == 0) return compressed_format(hf, config);
  if (strcmp(method, "mxfp4") == 0) return KC_WEIGHT_MXFP4;
  if (strcmp(method, "modelopt") == 0) return modelopt_format(hf, config);
  if (strcmp(method, "gptq") == 0 || strcmp(method, "awq") == 0) return gptq_format(hf, config);
  (void)kc_hf_fail(hf, "quantization_config.quant_method", "is \"%.40s\", expected one of %s",
                   method, METHODS);
  return KC_WEIGHT_DEFAULT;
}

/* ---- exempt modules ---- */

/* Python expression to POSIX extended: anchored, `(?:` becomes `(`. False when it uses something
 * that is refused or does not fit. */
static bool translate_regex(const char *source, char out[KC_EXEMPT_REGEX_BYTES + 8])
{
  size_t used = 0;
  if (strlen(source) > KC_EXEMPT_REGEX_BYTES) return false;
  out[used++] = '^';
  out[used++] = '(';
  for (const char *c = source; *c != '\0'; c++) {
    if (*c == '{') return false;
    if (*c == '\\' && c[1] >= '0' && c[1] <= '9') return false;
    if (c[0] == '(' && c[1] == '?') {
      if (c[2] != ':') return false;
      out[used++] = '(';
      c += 2;
      continue;
    }
    out[used++] = *c;
    if (*c == '\\' && c[1] != '\0') out[used++] = *++c;
  }
  out[used++] = ')';
  out[used] = '\0';
  KC_ASSERT(used < KC_EXEMPT_REGEX_BYTES + 8);
  return true;
}

/* Refuses one entry more than `max`; the ceilings keep the matching of a hostile list short. */
static bool has_room(struct kc_hf *hf, size_t count, size_t max, const char *what)
{
  KC_ASSERT(count <= max);
  if (count < max) return true;
  (void)kc_hf_fail(hf, "quantization_config", "exempts modules by more than %zu %s", max, what);
  return false;
}

static void add_regex(struct kc_quantisation *quantisation, struct kc_hf *hf, const char *source)
{
  char pattern[KC_EXEMPT_REGEX_BYTES + 8];
  if (!has_room(hf, quantisation->regex_count, KC_EXEMPT_PATTERNS_MAX, "expressions")) return;
  regex_t *regex = &quantisation->regex[quantisation->regex_count];
  if (!translate_regex(source, pattern) || regcomp(regex, pattern, REG_EXTENDED | REG_NOSUB) != 0) {
    (void)kc_hf_fail(hf, "quantization_config",
                     "exempts modules by the expression \"%.80s\", which is not understood; write "
                     "plain module names instead",
                     source);
    return;
  }
  quantisation->regex_count++;
}

static void add_exempt(struct kc_quantisation *quantisation, struct kc_hf *hf, const char *entry)
{
  struct kc_quantisation *q = quantisation;
  if (entry == NULL) {
    (void)kc_hf_fail(hf, "quantization_config", "exempts something that is not a module name");
  } else if (strncmp(entry, "re:", 3) == 0) {
    add_regex(q, hf, entry + 3);
  } else if (strchr(entry, '*') != NULL) {
    if (has_room(hf, q->glob_count, KC_EXEMPT_PATTERNS_MAX, "names with '*'")) {
      q->glob[q->glob_count++] = entry;
    }
  } else if (has_room(hf, q->name_count, KC_EXEMPT_NAMES_MAX, "names")) {
    q->name[q->name_count++] = entry;
  }
}

static void read_exempt(struct kc_quantisation *quantisation, struct kc_hf *hf,
                        const json_t *config)
{
  static const char *const keys[] = {"modules_to_not_convert", "ignore", "exclude_modules"};
  const json_t *list = NULL;
  KC_ASSERT(quantisation->name_count == 0);
  for (size_t i = 0; i < sizeof keys / sizeof *keys && list == NULL; i++) {
    const json_t *value = json_object_get(config, keys[i]);
    if (json_is_array(value)) list = value;
  }
  for (size_t i = 0; i < json_array_size(list) && hf->err == KC_OK; i++) {
    add_exempt(quantisation, hf, json_string_value(json_array_get(list, i)));
  }
}

void kc_quantisation_init(struct kc_quantisation *quantisation, struct kc_hf *hf)
{
  KC_ASSERT(hf->root != NULL);
  KC_ASSERT(hf->object != NULL);
  memset(quantisation, 0, sizeof *quantisation);
  quantisation->format = KC_WEIGHT_DEFAULT;
  const json_t *config = json_object_get(hf->object, "quantization_config");
  if (!json_is_object(config)) config = json_object_get(hf->root, "quantization_config");
  if (config == NULL || json_is_null(config)) return;
  if (!json_is_object(config)) {
    (void)kc_hf_fail(hf, "quantization_config", "is not an object");
    return;
  }
  quantisation->format = read_format(hf, config);
  quantisation->experts_only = quantisation->format == KC_WEIGHT_MXFP4;
  if (hf->err == KC_OK) read_exempt(quantisation, hf, config);
}

void kc_quantisation_deinit(struct kc_quantisation *quantisation)
{
  KC_ASSERT(quantisation->regex_count <= KC_EXEMPT_PATTERNS_MAX);
  for (size_t i = 0; i < quantisation->regex_count; i++) regfree(&quantisation->regex[i]);
  quantisation->regex_count = 0;
}

/* Where the dotted parts of a module's name begin. */
struct parts {
  size_t count;
  const char *start[PARTS_MAX];
};

static struct parts split_parts(const char *module)
{
  struct parts parts = {.count = 1, .start = {module}};
  for (const char *c = module; *c != '\0'; c++) {
    if (*c == '.' && parts.count < PARTS_MAX) parts.start[parts.count++] = c + 1;
  }
  KC_ASSERT(parts.count < PARTS_MAX); /* names are made by build.c, a dozen parts at most */
  return parts;
}

/* True when `name` is a run of whole parts, from the one that starts at `at`. */
static bool name_covers(const char *name, const char *at)
{
  if (*name == '\0') return false;
  while (*name != '\0' && *name == *at) {
    name++;
    at++;
  }
  return *name == '\0' && (*at == '\0' || *at == '.');
}

/* The same for a name with '*', which stands for any run. Only the latest star needs to be retried,
 * so this is O(pattern x name). */
static bool glob_covers(const char *pattern, const char *at)
{
  const char *star = NULL; /* just after the latest '*' */
  const char *retry = NULL;
  for (;;) {
    if (*pattern == '*') {
      star = ++pattern;
      retry = at;
      continue;
    }
    if (*pattern == '\0' && (*at == '\0' || *at == '.')) return true;
    if (*pattern != '\0' && *pattern == *at) {
      pattern++;
      at++;
      continue;
    }
    if (star == NULL || *retry == '\0') return false;
    pattern = star;
    at = ++retry;
  }
}

bool kc_quantisation_exempts(const struct kc_quantisation *quantisation, const char *module)
{
  const struct parts parts = split_parts(module);
  KC_ASSERT(quantisation->regex_count <= KC_EXEMPT_PATTERNS_MAX);
  KC_ASSERT(quantisation->name_count <= KC_EXEMPT_NAMES_MAX);
  for (size_t i = 0; i < quantisation->regex_count; i++) {
    if (regexec(&quantisation->regex[i], module, 0, NULL, 0) == 0) return true;
  }
  for (size_t part = 0; part < parts.count; part++) {
    const char *at = parts.start[part];
    for (size_t i = 0; i < quantisation->name_count; i++) {
      if (name_covers(quantisation->name[i], at)) return true;
    }
    for (size_t i = 0; i < quantisation->glob_count; i++) {
      if (glob_covers(quantisation->glob[i], at)) return true;
    }
  }
  return false;
}
