/* Any bytes as a client's windows, as its lengths, and as a length histogram. What is accepted must
 * be in order and drawable, and a client made of both must give a valid trace. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "traces/synth/servegen.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_points(const struct kc_length_point *point, size_t count)
{
  for (size_t i = 1; i < count; i++) {
    KC_ASSERT(point[i].tokens >= point[i - 1].tokens);
    KC_ASSERT(point[i].rank >= point[i - 1].rank);
  }
  KC_ASSERT(count == 0 || point[count - 1].rank == UINT64_MAX);
}

static void check_client(const struct kc_client *client)
{
  for (size_t i = 1; i < client->window_count; i++) {
    KC_ASSERT(client->window[i].start_ps > client->window[i - 1].start_ps);
  }
  for (size_t i = 0; i < client->lengths_count; i++) {
    check_points(client->lengths[i].point[0], client->lengths[i].count[0]);
    check_points(client->lengths[i].point[1], client->lengths[i].count[1]);
  }
}

/* A few requests of a pool of this one client. */
static void run_pool(struct kc_client *client)
{
  struct kc_client_pool pool = {.client = client, .count = 1,
                                .end_ps = client->window[0].start_ps + 10 * KC_PS_PER_S};
  const struct kc_pool_spec spec = {.seed = 1, .from_ps = client->window[0].start_ps, .rows = 100,
                                    .duration_ps = 5 * KC_PS_PER_S, .rate_nhz = 1000000000};
  struct kc_trace trace;
  struct kc_diag diag;
  if (kc_synth_pool(&trace, &pool, &spec, &diag) != KC_OK) return;
  KC_ASSERT(trace.count > 0 && trace.count <= 100);
  kc_trace_free(&trace);
}

static void read_histogram(const char *text, size_t bytes)
{
  struct kc_lengths lengths;
  struct kc_random random;
  struct kc_diag diag;
  uint32_t input, output;
  if (kc_lengths_parse(&lengths, "h", text, bytes, &diag) != KC_OK) return;
  kc_random_init(&random, 1, "fuzz", 0);
  for (int i = 0; i < 16; i++) kc_lengths_draw(&lengths, &random, &input, &output);
  KC_ASSERT(input > 0 && output > 0);
  kc_lengths_free(&lengths);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const char known[] = "{\"0\": {\"input_tokens\": \"{3: 1.0}\", \"output_tokens\": \"{4: 1.0}\"}}";
  struct kc_client client = {0}, other = {0};
  struct kc_diag diag;
  const char *text = (const char *)data;
  if (kc_client_read_windows(&client, "w", text, size, &diag) == KC_OK &&
      kc_client_read_lengths(&client, "l", known, strlen(known), &diag) == KC_OK &&
      client.window[0].start_ps < KC_PS_NEVER / 2) {
    check_client(&client);
    run_pool(&client);
  }
  if (kc_client_read_lengths(&other, "l", text, size, &diag) == KC_OK) check_client(&other);
  kc_client_free(&client);
  kc_client_free(&other);
  read_histogram(text, size);
  return 0;
}
