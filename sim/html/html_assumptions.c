/* What was assumed: every setting of the resolved scenarios, those that differ first; what was done
 * to the trace; the scenario's text. */
#include <stdlib.h>
#include <string.h>

#include "sim/html/html_internal.h"
#include "traces/transform/transform.h"

enum { SETTINGS_MAX = 512, KEY_BYTES = 192 };

/* One key of the scenarios, as --set names it, and its value in each run (NULL: not there). */
struct setting {
  char key[KEY_BYTES];
  const char *value[KC_HTML_RUNS_MAX];
};

struct settings {
  size_t count;
  struct setting item[SETTINGS_MAX];
};

/* ---- flattening ---- */

static void add_setting(struct settings *settings, size_t run, const char *key, const char *value)
{
  size_t i = 0;
  KC_ASSERT(run < KC_HTML_RUNS_MAX);
  while (i < settings->count && strcmp(settings->item[i].key, key) != 0) i++;
  if (i == SETTINGS_MAX) return; /* far beyond what a scenario can hold */
  if (i == settings->count) {
    settings->count += 1;
    snprintf(settings->item[i].key, KEY_BYTES, "%s", key);
  }
  settings->item[i].value[run] = value;
}

/* The part of a dotted path that leads to `node`: its key, or in a list its name or its place. */
static const char *part_of(const struct kc_node *node, size_t place, char number[24])
{
  KC_ASSERT(node != NULL);
  if (node->key != NULL) return node->key;
  const struct kc_node *name = kc_node_get(node, "name");
  if (name != NULL && name->kind == KC_NODE_SCALAR) return name->text;
  snprintf(number, 24, "%zu", place);
  return number;
}

/* A walk that keeps the way to the node in hand. */
struct walk {
  const struct kc_node *node[KC_NODE_DEPTH_MAX];
  size_t place[KC_NODE_DEPTH_MAX];  /* among its siblings */
  size_t length[KC_NODE_DEPTH_MAX]; /* of `key` before it */
  size_t depth;
  char key[KEY_BYTES];
};

static void append_part(struct walk *walk)
{
  char number[24];
  const size_t used = walk->length[walk->depth];
  const char *part = part_of(walk->node[walk->depth], walk->place[walk->depth], number);
  KC_ASSERT(used < KEY_BYTES);
  snprintf(walk->key + used, KEY_BYTES - used, "%s%s", used > 0 ? "." : "", part);
}

/* To the next node that has not been seen, upwards if need be; false at the end. */
static bool next_node(struct walk *walk)
{
  KC_ASSERT(walk->depth < KC_NODE_DEPTH_MAX);
  while (walk->node[walk->depth]->next == NULL) {
    if (walk->depth == 0) return false;
    walk->depth -= 1;
  }
  walk->node[walk->depth] = walk->node[walk->depth]->next;
  walk->place[walk->depth] += 1;
  return true;
}

static void flatten(struct settings *settings, size_t run, const struct kc_node *root)
{
  struct walk walk = {.node[0] = root->child};
  KC_ASSERT(root->kind == KC_NODE_MAP);
  if (root->child == NULL) return;
  do {
    const struct kc_node *node = walk.node[walk.depth];
    append_part(&walk);
    if (node->kind == KC_NODE_SCALAR) {
      add_setting(settings, run, walk.key, node->text);
    } else if (node->child != NULL && walk.depth + 1 < KC_NODE_DEPTH_MAX) {
      walk.depth += 1;
      walk.node[walk.depth] = node->child;
      walk.place[walk.depth] = 0;
      walk.length[walk.depth] = strlen(walk.key);
      continue;
    }
    if (!next_node(&walk)) break;
  } while (true);
}

/* ---- tables ---- */

static bool differs(const struct setting *setting, size_t runs)
{
  KC_ASSERT(runs <= KC_HTML_RUNS_MAX);
  for (size_t i = 1; i < runs; i++) {
    const char *a = setting->value[0], *b = setting->value[i];
    if ((a == NULL) != (b == NULL) || (a != NULL && strcmp(a, b) != 0)) return true;
  }
  return false;
}

/* Long keys may break at their joints. */
static void write_key(const struct kc_html *page, const char *key)
{
  KC_ASSERT(key[0] != '\0');
  fputs("<code>", page->out);
  for (const char *c = key; *c != '\0'; c++) {
    const char one[] = {*c, '\0'};
    kc_html_text(page->out, one);
    if (*c == '.' || *c == '_') fputs("<wbr>", page->out);
  }
  fputs("</code>", page->out);
}

static void write_value(const struct kc_html *page, const char *value)
{
  fputs("<code>", page->out);
  kc_html_text(page->out, value == NULL ? "–" : value[0] == '\0' ? "(empty)" : value);
  fputs("</code>", page->out);
}

static void write_difference(const struct kc_html *page, const struct setting *setting)
{
  KC_ASSERT(page->run.rows > 0);
  fputs("<tr><th scope=\"row\">", page->out);
  write_key(page, setting->key);
  fputs("</th>", page->out);
  for (size_t run = 0; run < page->run.rows; run++) {
    fputs("<td>", page->out);
    write_value(page, setting->value[run]);
    fputs("</td>", page->out);
  }
  fputs("</tr>\n", page->out);
}

static void write_differences(const struct kc_html *page, const struct settings *settings)
{
  KC_ASSERT(page->run.rows > 0);
  FILE *const out = page->out;
  fputs("<table>\n<caption>What differs</caption>\n<thead><tr><th scope=\"col\">Setting</th>", out);
  for (size_t run = 0; run < page->run.rows; run++) {
    fputs("<th scope=\"col\">", out);
    kc_html_chip(page, run);
    fputs("</th>", out);
  }
  fputs("</tr></thead>\n<tbody>\n", out);
  for (size_t i = 0; i < settings->count; i++) {
    if (differs(&settings->item[i], page->run.rows)) write_difference(page, &settings->item[i]);
  }
  fputs("</tbody>\n</table>\n", out);
}

static void write_common(const struct kc_html *page, const struct settings *settings)
{
  KC_ASSERT(page->run.rows > 0);
  FILE *const out = page->out;
  fprintf(out, "<p class=\"note\">%s; keys as <code>--set</code> takes them.</p>\n"
               "<dl class=\"settings\">\n",
          page->run.rows > 1 ? "The same in all runs" : "Every setting, defaults spelled out");
  for (size_t i = 0; i < settings->count; i++) {
    if (differs(&settings->item[i], page->run.rows)) continue;
    fputs("<div><dt>", out);
    write_key(page, settings->item[i].key);
    fputs("</dt><dd>", out);
    write_value(page, settings->item[i].value[0]);
    fputs("</dd></div>\n", out);
  }
  fputs("</dl>\n", out);
}

/* ---- the trace ---- */

static const char *note_text(const char *kind, const char *name)
{
  KC_ASSERT(kind != NULL && name != NULL);
  if (strcmp(kind, "note") == 0) {
    for (int i = 0; i < KC_NOTES; i++) {
      if (strcmp(kc_trace_note_name((enum kc_trace_note)i), name) == 0) {
        return kc_trace_note_text((enum kc_trace_note)i);
      }
    }
    return name;
  }
  for (int i = 0; i < KC_CHANGES; i++) {
    if (strcmp(kc_trace_change_name((enum kc_trace_change)i), name) == 0) {
      return kc_trace_change_text((enum kc_trace_change)i);
    }
  }
  return name;
}

static void write_notes(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  FILE *const out = page->out;
  const struct kc_cells *notes = &page->notes;
  if (notes->rows == 0) return;
  fputs("<h3>What was done to the trace</h3>\n<ul class=\"plain\">\n", out);
  for (size_t i = 0; i < notes->rows; i++) {
    char figure[96];
    const size_t run = (size_t)kc_cells_number(notes, i, "series");
    const char *name = kc_cells_text(notes, i, "name");
    const char *kind = kc_cells_text(notes, i, "kind");
    snprintf(figure, sizeof figure, "%s_%.64s", kind, note_text(kind, name) != name ? name : "");
    fputs("<li>", out);
    if (page->run.rows > 1) kc_html_chip(page, run);
    fputs(" ", out);
    kc_html_figure(out, "b", "", kc_html_source_of(page, run), figure,
                   kc_cells_text(notes, i, "times"), KC_ROUND_COUNT);
    fputs(" ", out);
    kc_html_text(out, note_text(kind, name));
    fputs("</li>\n", out);
  }
  fputs("</ul>\n", out);
}

static void write_scenarios(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  FILE *const out = page->out;
  fputs("<section>\n<h2>Scenario</h2>\n<p>The whole question, as stored with the result."
        "</p>\n", out);
  for (size_t run = 0; run < page->run.rows; run++) {
    kc_html_run_title(page, run);
    fputs("<pre><code>", out);
    kc_html_text(out, kc_cells_text(&page->scenario, run, "scenario_text"));
    fputs("</code></pre>\n", out);
  }
  fputs("</section>\n", out);
}

enum kc_err kc_html_assumptions(struct kc_html *page, struct kc_diag *diag)
{
  KC_ASSERT(page->run.rows > 0);
  struct settings *settings = calloc(1, sizeof *settings);
  if (settings == NULL) return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
  for (size_t run = 0; run < page->run.rows; run++) {
    flatten(settings, run, page->document[run].root);
  }
  fputs("<section>\n<h2>Assumptions</h2>\n", page->out);
  if (page->run.rows > 1) write_differences(page, settings);
  write_common(page, settings);
  write_notes(page);
  fputs("</section>\n", page->out);
  write_scenarios(page);
  free(settings);
  return KC_OK;
}
