/* The computing executor: computes the tokens of every step.
 *
 *   step delta --> slot tables (own copies of rows, tags, contexts)
 *              --> tag check of every entry that will be read
 *              --> blocks of rows --team--> forward passes
 *              --> tokens, finished slots, violations
 *
 * It keeps its own tables and believes nothing but the delta: rows are filled from the instance's
 * block table when pages are granted, and again where the prefix cache has put a page of the same
 * content in place of one of theirs; from then on the entries in use are its own. Before each step
 * they are compared with the pool's tags.
 *
 * Where operations run is the config's site (site.h). On a device rows, tags and verdicts exist
 * twice: changes are sent before the check reads them, the verdicts come back with the tokens, and
 * meanwhile attention masks what the check has refused.
 *
 * Tokens that a request found in the prefix cache are not computed: their keys and values are in
 * the pages. Where the step that finds them is the one that computes them, work runs in waves,
 * readers after writers. A page that is findable although nobody computed it (its chunk was taken
 * back, or its writer was refused) is computed by whoever found it, and counted.
 *
 * A request ends when it has the length of its trace row (kc_request_output), or with the
 * end-of-sequence token where one is set. With `clock` another executor (the predicted one) says
 * how long steps take; without, the wall clock does.
 */
#ifndef KC_ENGINE_EXEC_EXECUTOR_H
#define KC_ENGINE_EXEC_EXECUTOR_H

#include "engine/exec/forward.h"
#include "engine/exec/prompts.h"
#include "engine/exec/team.h"
#include "engine/kv/table.h"
#include "engine/sched/step.h"

struct kc_exec;

/* Somebody who looks at the host's tables around the tag check of each step and may damage them:
 * faults on purpose (tag_fault.h). What a hook changes is sent to a device before anything reads
 * it. */
struct kc_exec_probe {
  void *context;
  /* Rows, tags and places are as the check is about to read them. */
  void (*before_check)(void *context, struct kc_exec *exec, const struct kc_step *step);
  /* The check has run, and what it refused is out of the work; the pass comes next. */
  void (*before_pass)(void *context, struct kc_exec *exec, const struct kc_step *step);
  /* Verdicts are in and violations are reported. */
  void (*after_step)(void *context, struct kc_exec *exec, const struct kc_step *step);
};

struct kc_exec_config {
  struct kc_site site;            /* zeroed: the host */
  const struct kc_weights *weights; /* borrowed, like all pointers here */
  const struct kc_cache *cache;
  uint32_t slots, row_entries;      /* of the instance's table: kc_exec_row_entries */
  uint32_t pages;                   /* of its pool */
  enum kc_integrity integrity;
  uint32_t page_tokens;
  const struct kc_request *requests;
  uint32_t request_count;           /* most there will be */
  uint64_t output_tokens;           /* most they will produce together; they are kept */
  uint64_t max_model_len;
  struct kc_prompts prompts;
  int32_t end_token;                /* -1: none */
  float temperature;                /* of sampling; 0: the likeliest token */
  uint64_t sample_seed;             /* a request's draws depend on it, its number and positions */
  struct kc_team *team;             /* NULL: the caller's thread alone */
  uint32_t threads;                 /* of the team; 1 on a device */
  uint32_t block_rows;              /* rows of a pass; 0: 64, on a device 2,048 */
  bool eager;                       /* a device runs no graphs */
  struct kc_collective collective;  /* of a tensor-parallel rank */
  bool (*stop)(void *context);      /* as in kc_forward_config; KC_ERR_INTERRUPTED ends the step */
  const struct kc_executor *clock;  /* NULL: the wall clock */
  const struct kc_exec_probe *probe; /* NULL: nobody; not with integrity off */
  /* Called for each token, in batch order, after its step ran. NULL: nobody. */
  void (*on_token)(void *context, uint32_t request, uint32_t index, int32_t token);
  void *on_token_context;
};

struct kc_exec_slot {
  bool active;
  bool decoding;
  bool dead;           /* had a violation; waits to leave */
  bool ghost;          /* its request has ended; waits to leave */
  uint64_t still_at;   /* number of the step in which it last stood still; 0: never */
  uint32_t cached;     /* tokens found in the prefix cache, until its first work is looked at */
  uint32_t shared;     /* entries of its row that are copied as shared ones */
  uint32_t request;
  uint32_t length;     /* tokens with KV */
  uint32_t outputs;    /* tokens produced, those before a preemption included */
  uint32_t limit;      /* outputs at which it ends */
  uint32_t previous, next; /* join order */
};

/* What the operations read and write beside the forward's own: the host's arrays, or a device's. */
struct kc_exec_tables {
  struct kc_page_ref *entry;         /* [slots][row_entries] */
  uint32_t *tag;                     /* [pages] */
  uint64_t *place;                   /* [pages]: kc_op_tag_check's */
  uint32_t *verdict;                 /* [slots] */
  uint64_t *counter;                 /* [KC_TAG_COUNTERS] */
  struct kc_tag_event *ring;         /* [KC_FORWARD_RING] */
  uint32_t *check_slot, *check_entries; /* [slots] */
};

/* One piece of a step. */
struct kc_exec_work {
  struct kc_piece piece;
  uint32_t wave;
};

struct kc_exec_fill; /* what is in a page; executor.c */

struct kc_exec {
  struct kc_exec_config config;
  struct kc_exec_slot *slot;
  uint32_t slots, row_entries;       /* as in config */
  uint32_t first, last;        /* of the active slots, in join order */
  struct kc_site site;
  struct kc_exec_tables host;  /* counters: all members' added up; ring: on the host of checks */
  struct kc_exec_tables on;    /* the same at the site */
  struct kc_arena device, pinned; /* of a device's tables */
  uint32_t *extent;            /* [slots] */
  uint64_t events_seen;        /* in the host's ring */
  struct kc_forward *forward;  /* [threads] */
  struct kc_exec_work *work;    /* [slots] */
  uint32_t work_count;
  struct kc_exec_fill *fill;    /* [pages] */
  uint32_t waves;              /* of this step */
  uint32_t *order;             /* [slots]: work items, wave by wave */
  uint32_t *task_first;        /* [slots + 1]: places in `order` at which tasks begin */
  uint32_t task_count;
  int32_t *row_token;          /* [threads][block_rows] */
  struct kc_piece *piece;      /* [threads][slots] */
  enum kc_op_status *status;   /* [threads] */
  int32_t *output;             /* [output_tokens] */
  uint64_t output_used;
  uint64_t *output_first;      /* [request_count]; UINT64_MAX before the request joined */
  uint32_t *output_count;      /* [request_count] */
  uint32_t *finished;          /* results */
  struct kc_violation *violation;
  uint64_t steps;
  uint64_t tokens;             /* that requests produced */
  uint64_t rows;               /* passed through the model */
  uint64_t rows_cached;        /* found in the prefix cache instead */
  uint64_t rows_repaired;      /* found there, but computed all the same: nobody had */
  uint64_t rows_discarded;     /* decodes of ghosts */
};

/* Entries a slot's row needs: those of the longest sequence, or all pages there are. */
uint32_t kc_exec_row_entries(uint64_t max_model_len, uint32_t page_tokens, uint32_t pages);

size_t kc_exec_need(const struct kc_exec_config *config);
enum kc_err kc_exec_init(struct kc_exec *exec, const struct kc_exec_config *config,
                         struct kc_arena *arena, struct kc_diag *diag);
/* Gives back what a device holds. The arena is the caller's. */
void kc_exec_deinit(struct kc_exec *exec);
struct kc_executor kc_exec_executor(struct kc_exec *exec);

/* Tokens that a request produced so far; *count of them. NULL before it joined. */
const int32_t *kc_exec_output(const struct kc_exec *exec, uint32_t request, uint32_t *count);

/* Row of a slot as the executor has it, for decision logs. */
static inline const struct kc_page_ref *kc_exec_row(const struct kc_exec *exec, uint32_t slot)
{
  return exec->host.entry + (size_t)slot * exec->row_entries;
}

#endif
