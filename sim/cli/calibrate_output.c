/* A profile as text (see calibrate_output.h). Keys that say nothing are left out. */
#include "sim/cli/calibrate_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/calibrate/fitted_to.h"
#include "sim/cli/cli.h"

static void put_left_out(FILE *out, const struct kc_left_out *left)
{
  fprintf(out, "      - {row: \"%s\", host_step_us: %g, bandwidth_efficiency: %g,\n"
          "         kv_efficiency: %g, flops_efficiency: %g", left->row, left->host_step_us,
          left->bandwidth_efficiency, left->kv_efficiency, left->flops_efficiency);
  if (left->expand_efficiency > 0) {
    fprintf(out, ", expand_efficiency: %g", left->expand_efficiency);
  }
  fputs("}\n", out);
}

/* Text of a user as YAML: plain where it is a plain word, else quoted, with escapes. */
static void put_text(FILE *out, const char *key, const char *text, bool quoted)
{
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
  const bool word = text[strspn(text, plain)] == '\0' &&
                    strspn(text, "-._0123456789") < strlen(text) && /* no number, no dash alone */
                    strcmp(text, "null") != 0 && strcmp(text, "true") != 0 &&
                    strcmp(text, "false") != 0;
  if (word && !quoted) {
    fprintf(out, "%s: %s\n", key, text);
    return;
  }
  fprintf(out, "%s: \"", key);
  for (; *text != '\0'; text++) {
    const unsigned char c = (unsigned char)*text;
    if (c < 0x20 || c == 0x7f) {
      fprintf(out, "\\x%02x", c);
    } else {
      fprintf(out, c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
  }
  fputs("\"\n", out);
}

static void put_if(FILE *out, const char *key, double value)
{
  KC_ASSERT(value >= 0);
  if (value > 0) fprintf(out, "    %s: %g\n", key, value);
}

static void put_range(FILE *out, const char *key, double least, double most)
{
  KC_ASSERT(least >= 0 && most >= 0);
  if (most > 0) fprintf(out, "    %s_min: %.10g\n    %s_max: %.10g\n", key, least, key, most);
}

/* Host, kernels, collectives. */
static void put_rates(FILE *out, const struct kc_gpu_profile *p)
{
  fprintf(out, "    host_step_us: %g\n    host_measured: %s\n", p->host_step_us,
          p->host_measured ? "true" : "false");
  put_if(out, "host_sequence_us", p->host_sequence_us);
  put_if(out, "prompt_step_us", p->prompt_step_us);
  put_if(out, "kernel_scale", p->kernel_scale);
  put_if(out, "spread_share", p->spread_share);
  put_if(out, "eager_step_us", p->eager_step_us);
  put_if(out, "graph_batch_max", p->graph_batch_max);
  put_if(out, "link_efficiency", p->link_efficiency);
  put_if(out, "link_latency_us", p->link_latency_us);
  fprintf(out, "    op_latency_us: %g\n    bandwidth_efficiency: %g\n    kv_efficiency: %g\n"
          "    flops_efficiency: %g\n", p->op_latency_us, p->bandwidth_efficiency,
          p->kv_efficiency, p->flops_efficiency);
  put_if(out, "expand_efficiency", p->expand_efficiency);
}

/* What was fitted, where, and how well. */
static void put_fit(FILE *out, const struct kc_gpu_profile *p)
{
  put_text(out, "    fitted_gpu", p->fitted_gpu, false);
  put_text(out, "    fitted_model", p->fitted_model, false);
  fprintf(out, "    fitted_tensor: %u\n", p->fitted_tensor);
  if (p->fitted_kv[0] != '\0') fprintf(out, "    fitted_kv: %s\n", p->fitted_kv);
  if (p->fitted_weights[0] != '\0') {
    fprintf(out, "    fitted_weights: \"%s\"\n", p->fitted_weights);
  }
  put_range(out, "batch", p->batch_min, p->batch_max);
  put_range(out, "sequences", p->sequences_min, p->sequences_max);
  put_range(out, "context", p->context_min, p->context_max);
  fprintf(out, "    rows: %u\n    residual_percent: %g\n", p->rows, p->residual_percent);
  if (p->left_out_count > 0) fputs("    left_out:\n", out);
  for (uint32_t i = 0; i < p->left_out_count; i++) put_left_out(out, &p->left_out[i]);
}

enum kc_err kc_calibrate_profile_text(char **text, const struct kc_gpu_profile *profile,
                                      struct kc_diag *diag)
{
  size_t bytes = 0;
  *text = NULL;
  KC_ASSERT(profile->calibrated && profile->name[0] != '\0');
  FILE *out = open_memstream(text, &bytes);
  if (out == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the profile");
  put_text(out, "  - name", profile->name, false);
  fputs("    calibrated: true\n", out);
  put_rates(out, profile);
  put_fit(out, profile);
  if (profile->kernels[0] != '\0') fprintf(out, "    kernels: %s\n", profile->kernels);
  put_text(out, "    source", profile->source, true);
  if (fclose(out) == 0) return KC_OK;
  free(*text);
  *text = NULL;
  return kc_fail(diag, KC_ERR_MEMORY, "no memory for the profile");
}

const char *kc_calibrate_mark(double median_percent)
{
  return median_percent > KC_FIT_MEDIAN_PERCENT ? ", IMPLAUSIBLE" : "";
}

void kc_calibrate_note_median(const char *what, double median_percent)
{
  if (median_percent <= KC_FIT_MEDIAN_PERCENT) return;
  kc_cli_note("%s off by %.1f %% in the median, which is no fit: check that model, formats, tensor "
              "degree, GPU, lengths and scheduler limits are those of the server that was measured",
              what, median_percent);
}

void kc_calibrate_note_bound(const char *term, double value, bool is_time)
{
  if (is_time && value < 100) {
    kc_cli_note("%s ended at its bound of 0, so the measurement leaves no time for it: leave it "
                "out of --fit, or check lengths and formats", term);
    return;
  }
  kc_cli_note("%s ended at its bound of %.4g%s, where the fit cannot follow the measurement: check "
              "lengths and formats, hold the term or fit others", term, value,
              is_time ? " us" : "");
}
