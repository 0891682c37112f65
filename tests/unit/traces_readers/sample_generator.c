/* A synthetic conversation trace with the shape of the public Azure one, and none of its rows.
 *
 *   lengths   input by inverse distribution through quantile knots; output likewise, with knots
 *             that depend on the input's band (a short prompt seldom has the output of a long one)
 *   arrivals  exponential gaps whose rate steps along a ladder every 20 s: a random walk drawn to
 *             the middle, so that busy minutes follow busy minutes, as they do in the original
 *
 * The knots are statistics measured on AzureLLMInferenceTrace_conv (Azure/AzurePublicDataset,
 * CC-BY-4.0, Splitwise, ISCA 2024): 5.53 requests a second, minutes from 190 to 507 requests, index
 * of dispersion 1.4 over 1 s, 4 over 10 s, 20 over 60 s. The seed is the one of the first eight
 * whose short stretch comes nearest: 5.60 a second, 1.3, 4.4, 13.7. Integers throughout and our own
 * random streams: the same bytes everywhere. */
#include "sample_generator.h"

#include <stdint.h>
#include <stdio.h>

#include "engine/base/random.h"

enum { SEED = 5, GAP_MEAN_US = 180832, STEP_US = 20000000, DAY_START_S = 9 * 3600 };

struct knot {
  uint32_t per_mille, tokens;
};

static const struct knot input_knots[] = {
    {0, 2},       {20, 91},     {50, 181},    {100, 207},   {150, 372},   {200, 387},
    {250, 396},   {300, 403},   {388, 450},   {400, 703},   {419, 900},   {500, 1020},
    {600, 1071},  {700, 1130},  {750, 1189},  {800, 1315},  {850, 1877},  {900, 2735},
    {950, 4083},  {980, 4098},  {990, 4142},  {999, 6212},  {1000, 14000},
};

enum { OUTPUT_KNOTS = 8 };

/* Output quantiles of the inputs below `input_end`. */
struct band {
  uint32_t input_end;
  struct knot output[OUTPUT_KNOTS];
};

#define BAND(end, q0, q10, q25, q50, q75, q90, q99, q100)                                         \
  {                                                                                               \
    end, {{0, q0}, {100, q10}, {250, q25}, {500, q50}, {750, q75}, {900, q90}, {990, q99},        \
          {1000, q100}}                                                                           \
  }

static const struct band bands[] = {
    BAND(100, 8, 20, 98, 136, 163, 186, 238, 320),
    BAND(380, 7, 18, 68, 113, 179, 217, 274, 420),
    BAND(450, 20, 76, 86, 96, 109, 132, 176, 400),
    BAND(900, 14, 51, 80, 96, 121, 394, 456, 600),
    BAND(1100, 60, 373, 392, 403, 427, 475, 646, 1000),
    BAND(2000, 20, 70, 124, 382, 412, 443, 641, 1000),
    BAND(5000, 10, 37, 46, 67, 100, 138, 239, 500),
    BAND(UINT32_MAX, 20, 49, 68, 98, 122, 152, 190, 300),
};

/* Rates as per-mille of the mean rate; neighbours on the ladder follow each other in time. */
static const uint64_t rate_ladder[] = {349, 535, 721, 907, 1093, 1279, 1465, 1651};
enum { RATES = sizeof rate_ladder / sizeof rate_ladder[0] };

/* A draw from the distribution whose inverse runs straight between the knots. */
static uint32_t draw(struct kc_random *random, const struct knot *knot)
{
  enum { STEPS_PER_MILLE = 1000 };
  const uint64_t at = kc_random_below(random, 1000 * STEPS_PER_MILLE);
  while ((uint64_t)knot[1].per_mille * STEPS_PER_MILLE <= at) knot++;
  const uint64_t begin = (uint64_t)knot[0].per_mille * STEPS_PER_MILLE;
  const uint64_t width = (uint64_t)knot[1].per_mille * STEPS_PER_MILLE - begin;
  return knot[0].tokens + (uint32_t)((knot[1].tokens - knot[0].tokens) * (at - begin) / width);
}

static const struct knot *output_knots(uint32_t input)
{
  const struct band *band = bands;
  while (input >= band->input_end) band++;
  return band->output;
}

/* One step of the walk (Ehrenfest's urns): down with chance rate / (RATES - 1), else up, so that
 * the time at each rung is binomial about the middle. */
static uint32_t next_rate(struct kc_random *random, uint32_t rate)
{
  return kc_random_chance(random, rate, RATES - 1) ? rate - 1 : rate + 1;
}

static size_t write_row(char *out, uint64_t at_us, uint32_t input, uint32_t output)
{
  const uint64_t second = DAY_START_S + at_us / 1000000;
  return (size_t)snprintf(out, 64, "2030-01-01 %02u:%02u:%02u.%06u0,%u,%u\n",
                          (unsigned)(second / 3600 % 24), (unsigned)(second / 60 % 60),
                          (unsigned)(second % 60), (unsigned)(at_us % 1000000), input, output);
}

size_t sample_generate(char *out)
{
  struct kc_random gaps, rates, lengths;
  uint64_t at_us = 0, step_end_us = STEP_US;
  uint32_t rate = RATES / 2;
  size_t used = (size_t)snprintf(out, 64, "TIMESTAMP,ContextTokens,GeneratedTokens\n");
  kc_random_init(&gaps, SEED, "sample-gaps", 0);
  kc_random_init(&rates, SEED, "sample-rates", 0);
  kc_random_init(&lengths, SEED, "sample-lengths", 0);
  for (int row = 0; row < SAMPLE_ROWS; row++) {
    at_us += kc_random_exponential(&gaps, (uint64_t)GAP_MEAN_US * 1000 / rate_ladder[rate]);
    for (; at_us >= step_end_us; step_end_us += STEP_US) rate = next_rate(&rates, rate);
    const uint32_t input = draw(&lengths, input_knots);
    used += write_row(out + used, at_us, input, draw(&lengths, output_knots(input)));
  }
  return used;
}
