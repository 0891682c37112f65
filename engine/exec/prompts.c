/* Texts that no file holds, by counter: any token of any request at any time. */
#include "engine/exec/prompts.h"

#include "engine/base/check.h"
#include "engine/kv/content.h"
#include "kernels/formats/counter.h"

static int32_t synthetic_token(void *context, uint32_t request, uint32_t position)
{
  const struct kc_synthetic_prompts *prompts = context;
  KC_ASSERT(prompts->vocabulary > 0);
  const uint64_t draw = kc_counter_u64(prompts->seed, request, position);
  return (int32_t)((draw >> 32) * prompts->vocabulary >> 32);
}

struct kc_prompts kc_prompts_synthetic(struct kc_synthetic_prompts *prompts)
{
  KC_ASSERT(prompts != NULL);
  return (struct kc_prompts){.context = prompts, .token = synthetic_token};
}

/* Key of page `page`, KC_KEY_NONE behind the last one. O(runs). */
static uint32_t key_at(const struct kc_request *request, uint32_t page)
{
  const struct kc_content content = {.run = request->run, .run_count = request->run_count};
  struct kc_key_walk walk = kc_key_walk_begin(&content);
  kc_key_walk_skip(&walk, page);
  return kc_key_walk_next(&walk);
}

static int32_t content_token(void *context, uint32_t request, uint32_t position)
{
  const struct kc_content_prompts *prompts = context;
  const uint32_t page = position / prompts->page_tokens, offset = position % prompts->page_tokens;
  const uint32_t key = key_at(&prompts->requests[request], page);
  const uint64_t stream = UINT64_C(1) << 32 | key; /* requests are below that */
  KC_ASSERT(prompts->vocabulary > 0);
  const uint64_t draw = key == KC_KEY_NONE ? kc_counter_u64(prompts->seed, request, position)
                                           : kc_counter_u64(prompts->seed, stream, offset);
  return (int32_t)((draw >> 32) * prompts->vocabulary >> 32);
}

struct kc_prompts kc_prompts_of_contents(struct kc_content_prompts *prompts)
{
  KC_ASSERT(prompts != NULL && prompts->page_tokens > 0);
  return (struct kc_prompts){.context = prompts, .token = content_token, .whole = true};
}
