/* Offered KV against the pool: when would a server run out of memory if it took everything in?
 *
 * A request is offered from its arrival until it has ended, whether it waits, runs or was
 * preempted. What all of them want is compared with the pool whatever the policy does about it. The
 * batch counts pages request by request (demand_pages); with a prefix cache, pages of prompts that
 * several of them share count once:
 *
 *   offered[key]    offered requests whose prompt has that page
 *   shared_demand   sum over the keys of offered[key] - 1, where that is positive
 *
 * Outputs count as nobody else's.
 */
#include "engine/instance/instance_parts.h"

/* One more, or one fewer, request with these prompt pages. */
static void count_prompt(struct kc_instance *instance, uint32_t request, bool offered)
{
  const struct kc_batch *batch = &instance->batch;
  const struct kc_request *r = &batch->requests[request];
  uint32_t left = r->input_tokens / batch->config.page_size;
  if (instance->offered == NULL) return;
  for (uint32_t i = 0; i < r->run_count && left > 0; i++) {
    const uint32_t count = r->run[i].count < left ? r->run[i].count : left;
    uint32_t *at = instance->offered + r->run[i].first;
    KC_ASSERT(r->run[i].first + count <= batch->config.key_count);
    for (uint32_t j = 0; j < count; j++) {
      if (offered) instance->shared_demand += at[j]++ > 0;
      else instance->shared_demand -= --at[j] > 0;
    }
    left -= count;
  }
}

static uint64_t final_pages_of(const struct kc_instance *instance, uint32_t request)
{
  const struct kc_request *r = &instance->batch.requests[request];
  const uint64_t output = kc_request_output(r, instance->config.sched.max_model_len);
  KC_ASSERT(output > 0);
  return kc_pages_of(r->input_tokens + output - 1, instance->config.sched.page_size);
}

void kc_demand_offer(struct kc_instance *instance, uint32_t request)
{
  count_prompt(instance, request, true);
  instance->final_pages += final_pages_of(instance, request);
}

void kc_demand_withdraw(struct kc_instance *instance, uint32_t request)
{
  const uint64_t pages = final_pages_of(instance, request);
  KC_ASSERT(instance->final_pages >= pages);
  instance->final_pages -= pages;
  count_prompt(instance, request, false);
}

static void note_demand(struct kc_instance *instance, kc_ps now_ps, uint32_t request,
                        uint64_t demand)
{
  if (demand <= instance->pool.page_count || instance->oom_ps != KC_PS_NEVER) return;
  instance->oom_ps = now_ps;
  instance->oom_request = request;
  instance->oom_demand_pages = demand;
}

void kc_demand_note_arrival(struct kc_instance *instance, uint32_t request)
{
  const struct kc_batch *batch = &instance->batch;
  const uint64_t open = instance->in_step ? batch->ungranted : 0;
  const uint64_t pages =
      instance->demand_is_final ? instance->final_pages : batch->demand_pages + open;
  KC_ASSERT(pages >= instance->shared_demand);
  note_demand(instance, batch->requests[request].arrival_ps, request,
              pages - instance->shared_demand);
}

/* The bucket's member with `before` offered ones ahead of it. */
static uint32_t offered_member(const struct kc_batch *batch, uint64_t before)
{
  uint32_t slot = kc_batch_needy(batch)->head;
  for (uint64_t i = 0;; slot = batch->slot[slot].list_next) {
    KC_ASSERT(slot != KC_SLOT_NONE);
    if (batch->slot[slot].ghost) continue;
    if (i++ == before) return slot;
  }
}

/* Every decode that needs a page in the coming tick has grown by one, whether it will get that page
 * or not. */
void kc_demand_note_growth(struct kc_instance *instance)
{
  const struct kc_batch *batch = &instance->batch;
  const uint64_t pages = instance->pool.page_count;
  const uint64_t demand = batch->demand_pages - instance->shared_demand;
  KC_ASSERT(!instance->demand_is_final && instance->oom_ps == KC_PS_NEVER);
  if (demand + kc_batch_needy(batch)->count <= pages) return;
  if (demand + kc_batch_growth(batch) <= pages) return;
  const uint64_t before = demand < pages ? pages - demand : 0;
  const uint32_t slot = offered_member(batch, before);
  note_demand(instance, instance->clock_ps, batch->slot[slot].request, pages + 1);
}
