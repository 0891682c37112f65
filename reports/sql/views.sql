-- Views for the figures and for people.
--
-- `kvcap report` loads them and fills `chosen`; each view becomes one CSV file. By hand:
--
--   sqlite3 kvcap.db
--   .read reports/sql/views.sql
--   INSERT INTO chosen SELECT row_number() OVER (ORDER BY id) - 1, id FROM run;
--   SELECT * FROM report_summary;
--
-- All objects are temporary: the database itself is never changed. Units are in the column names;
-- picoseconds become milliseconds or seconds here and nowhere else.

CREATE TEMP TABLE IF NOT EXISTS chosen (
  series INTEGER PRIMARY KEY,  -- 0, 1, ... from left to right
  run_id INTEGER NOT NULL UNIQUE
);

-- Names for legends: short enough for a figure, and without the two characters that gnuplot's CSV
-- reader cannot take back inside a quoted field (comma and quotation mark).
CREATE TEMP VIEW IF NOT EXISTS chosen_label AS
SELECT chosen.series AS series, run.id AS run_id,
       run.id || ': ' || replace(replace(replace(replace(replace(
         CASE WHEN length(run.name) > 64 THEN substr(run.name, 1, 63) || '…' ELSE run.name END,
         ', ', ' · '), ',', ' · '), '"', ''''), char(10), ' '), char(13), ' ') AS label
FROM chosen JOIN run ON run.id = chosen.run_id;

-- The memory bill of the fullest GPU as parts of a stacked bar: [low_gib, high_gib) each. The KV
-- pool appears in two parts: what was in use at the peak, and what never was.
CREATE TEMP VIEW IF NOT EXISTS report_memory AS
WITH bill AS (
  SELECT series, label, memory_bytes, weights_bytes, kv_budget_bytes, other_bytes, reserve_bytes,
         min(kv_budget_bytes,
             coalesce(json_extract(summary_json, '$.fleet.fullest_kv_peak_pages'), kv_peak_pages)
             * page_size * kv_token_bytes) AS kv_peak_bytes
  FROM chosen_label JOIN run ON run.id = chosen_label.run_id
),
part (series, label, place, kind, bytes) AS (
  SELECT series, label, 1, 'weights', weights_bytes FROM bill UNION ALL
  SELECT series, label, 2, 'kv_peak', kv_peak_bytes FROM bill UNION ALL
  SELECT series, label, 3, 'kv_unused', kv_budget_bytes - kv_peak_bytes FROM bill UNION ALL
  SELECT series, label, 4, 'other', other_bytes FROM bill UNION ALL
  SELECT series, label, 5, 'reserve', reserve_bytes FROM bill UNION ALL
  SELECT series, label, 6, 'free', max(0, memory_bytes - weights_bytes - kv_budget_bytes
                                          - other_bytes - reserve_bytes) FROM bill
)
SELECT series, label, kind, bytes / 1073741824.0 AS size_gib,
       (sum(bytes) OVER upward - bytes) / 1073741824.0 AS low_gib,
       sum(bytes) OVER upward / 1073741824.0 AS high_gib
FROM part
WINDOW upward AS (PARTITION BY series ORDER BY place)
ORDER BY series, place;

-- State over virtual time; at most a few thousand instants a run. A run in which nothing ran has
-- one instant, so that it keeps its place in the legend.
CREATE TEMP VIEW IF NOT EXISTS report_timeline AS
SELECT series, label, time_ps / 1e12 AS time_s, running, waiting, pages_used,
       100.0 * pages_used / (run.pages * coalesce(json_extract(summary_json, '$.replicas'), 1))
         AS kv_used_percent, held_tokens
FROM chosen_label
JOIN run ON run.id = chosen_label.run_id
JOIN timeline ON timeline.run_id = chosen_label.run_id
UNION ALL
SELECT series, label, 0.0, 0, 0, 0, 0.0, 0 FROM chosen_label
WHERE NOT EXISTS (SELECT 1 FROM timeline WHERE timeline.run_id = chosen_label.run_id)
ORDER BY series, time_s;

-- Distributions: the share of requests (of gaps, for ITL) with at most this latency. One row for
-- each bucket that carries the share past another 0.2 %, and the starting point at 0 %. A run
-- without any latency has one row of metric "none", so that it keeps its place in the legend.
CREATE TEMP VIEW IF NOT EXISTS report_latency AS
WITH running_sum AS (
  SELECT series, label, metric, low_ps, high_ps - 1 AS last_ps,
         100.0 * sum(count) OVER upward / sum(count) OVER whole AS share_percent,
         100.0 * (sum(count) OVER upward - count) / sum(count) OVER whole AS share_before_percent,
         row_number() OVER upward AS place
  FROM chosen_label JOIN histogram ON histogram.run_id = chosen_label.run_id
  WINDOW whole AS (PARTITION BY series, metric),
         upward AS (PARTITION BY series, metric ORDER BY low_ps)
)
SELECT series, label, metric, max(1, low_ps) / 1e9 AS latency_ms, 0.0 AS share_percent
FROM running_sum WHERE place = 1
UNION ALL
SELECT series, label, metric, max(1, last_ps) / 1e9, share_percent
FROM running_sum
WHERE CAST(share_percent * 5 AS INTEGER) > CAST(share_before_percent * 5 AS INTEGER)
UNION ALL
SELECT series, label, 'none', NULL, NULL FROM chosen_label
WHERE NOT EXISTS (SELECT 1 FROM histogram WHERE histogram.run_id = chosen_label.run_id)
ORDER BY series, metric, share_percent, latency_ms;

-- One row per run: for a spreadsheet, and for the page, whose every number is a column of this view
-- or of report_memory. What the run row lacks comes out of the document that `run --json` printed.
CREATE TEMP VIEW IF NOT EXISTS report_summary AS
SELECT series, run.id AS run, run.name AS name, model, gpu, version, result_sha256,
       requests_total, requests_completed, requests_rejected, requests_failed, requests_cancelled,
       requests_timed_out, input_tokens, output_tokens, output_tok_s_micro / 1e6 AS output_tok_s,
       ttft_mean_ps / 1e9 AS ttft_mean_ms, ttft_p50_ps / 1e9 AS ttft_p50_ms,
       ttft_p90_ps / 1e9 AS ttft_p90_ms, ttft_p95_ps / 1e9 AS ttft_p95_ms,
       ttft_p99_ps / 1e9 AS ttft_p99_ms,
       tpot_mean_ps / 1e9 AS tpot_mean_ms, tpot_p50_ps / 1e9 AS tpot_p50_ms,
       tpot_p90_ps / 1e9 AS tpot_p90_ms, tpot_p95_ps / 1e9 AS tpot_p95_ms,
       tpot_p99_ps / 1e9 AS tpot_p99_ms,
       itl_mean_ps / 1e9 AS itl_mean_ms, itl_p50_ps / 1e9 AS itl_p50_ms,
       itl_p90_ps / 1e9 AS itl_p90_ms, itl_p95_ps / 1e9 AS itl_p95_ms,
       itl_p99_ps / 1e9 AS itl_p99_ms,
       e2e_mean_ps / 1e9 AS e2e_mean_ms, e2e_p50_ps / 1e9 AS e2e_p50_ms,
       e2e_p90_ps / 1e9 AS e2e_p90_ms, e2e_p95_ps / 1e9 AS e2e_p95_ms,
       e2e_p99_ps / 1e9 AS e2e_p99_ms,
       makespan_ps / 1e12 AS makespan_s, max_running, max_waiting, preemptions,
       kv_peak_tokens, pages * page_size AS kv_tokens, oom_ps / 1e12 AS oom_s, trust, trust_basis,
       ttft_max_ps / 1e9 AS ttft_max_ms, tpot_max_ps / 1e9 AS tpot_max_ms,
       itl_max_ps / 1e9 AS itl_max_ms, e2e_max_ps / 1e9 AS e2e_max_ms,
       ttft_count, tpot_count, itl_count, e2e_count,
       -- With overlapped scheduling a last step may run for nobody after the last answer is out.
       -- Peaks and sums are those of all replicas, pages of one.
       coalesce(json_extract(summary_json, '$.replicas'), 1) AS replicas,
       min(100.0, 100.0 * busy_ps / coalesce(json_extract(summary_json, '$.replicas'), 1)
                  / nullif(makespan_ps, 0)) AS busy_percent,
       100.0 * kv_peak_pages / coalesce(json_extract(summary_json, '$.replicas'), 1) / pages
         AS kv_peak_percent,
       100.0 * outside_ps / nullif(busy_ps, 0) AS outside_percent,
       requests_rejected + requests_failed + requests_timed_out AS requests_unserved,
       slo_met, steps, oom_request, oom_demand_pages, pages, page_size, kv_token_bytes,
       memory_bytes / 1073741824.0 AS memory_gib, weights_bytes / 1073741824.0 AS weights_gpu_gib,
       kv_budget_bytes / 1073741824.0 AS kv_budget_gib,
       json_extract(summary_json, '$.cost_usd_per_mtok') AS usd_per_mtok,
       json_extract(summary_json, '$.cost.usd') AS usd_total,
       json_extract(summary_json, '$.cost.price.gpu_hour_usd') AS gpu_hour_usd,
       json_extract(summary_json, '$.cost.gpu_hours') AS gpu_hours,
       100.0 * json_extract(summary_json, '$.cost.idle_gpu_hours')
         / json_extract(summary_json, '$.cost.gpu_hours') AS idle_percent,
       100.0 * json_extract(summary_json, '$.cost.cold_gpu_hours')
         / json_extract(summary_json, '$.cost.gpu_hours') AS cold_percent,
       json_extract(summary_json, '$.cost.usd_per_mtok_input') AS usd_per_mtok_input,
       json_extract(summary_json, '$.cost.usd_per_mtok_cached') AS usd_per_mtok_cached,
       json_extract(summary_json, '$.cost.usd_per_mtok_output') AS usd_per_mtok_output,
       json_extract(summary_json, '$.cost.api.usd') AS api_usd,
       json_extract(summary_json, '$.cost.api.ratio') AS api_ratio,
       json_extract(summary_json, '$.cost.api.break_even_requests_per_s') AS break_even_req_s,
       100.0 * json_extract(summary_json, '$.cost.api.break_even_share') AS break_even_percent,
       json_extract(summary_json, '$.energy.kwh') AS kwh,
       json_extract(summary_json, '$.energy.joules_per_token') AS joules_per_token,
       json_extract(summary_json, '$.energy.usd') AS energy_usd,
       json_extract(summary_json, '$.energy.idle_w') AS idle_w,
       json_extract(summary_json, '$.energy.power_w') AS power_w,
       json_extract(summary_json, '$.energy.pue') AS pue,
       json_extract(summary_json, '$.goodput_req_s') AS goodput_req_s,
       json_extract(summary_json, '$.output_tok_s_per_gpu') AS output_tok_s_gpu,
       json_extract(summary_json, '$.gpus') AS gpus,
       100.0 * json_extract(summary_json, '$.cache_hit_token_ratio') AS cache_hit_percent,
       100.0 * json_extract(summary_json, '$.utilisation.headroom') AS headroom_percent,
       json_extract(summary_json, '$.utilisation.most_requests_per_s') AS most_requests_per_s,
       json_extract(summary_json, '$.policy') AS policy,
       json_extract(summary_json, '$.profile') AS profile,
       json_extract(summary_json, '$.kv_format') AS kv_format,
       json_extract(summary_json, '$.host_term_measured') AS host_term_measured,
       (SELECT group_concat(value, ', ') FROM json_each(summary_json, '$.trust.not_measured'))
         AS not_measured,
       json_extract(summary_json, '$.intervals.replicates') AS interval_replicates,
       json_extract(summary_json, '$.trace.format') AS trace_format,
       json_extract(summary_json, '$.trace.loop') AS trace_loop,
       json_extract(summary_json, '$.trace.span_s') AS trace_span_s,
       scenario_sha256, trace_sha256, seed,
       (SELECT commit_id FROM host WHERE host.run_id = run.id) AS commit_id
FROM chosen JOIN run ON run.id = chosen.run_id
ORDER BY series;

-- What each replica did, where there are several.
CREATE TEMP VIEW IF NOT EXISTS report_replicas AS
SELECT series, run.id AS run, key AS replica, json_extract(value, '$.requests') AS requests,
       json_extract(value, '$.output_tokens') AS output_tokens,
       json_extract(value, '$.max_running') AS max_running,
       json_extract(value, '$.max_waiting') AS max_waiting,
       100.0 * json_extract(value, '$.kv_peak_pages') / pages AS kv_peak_percent
FROM chosen JOIN run ON run.id = chosen.run_id, json_each(summary_json, '$.fleet.each')
ORDER BY series, key;

-- The resolved scenario of each run.
CREATE TEMP VIEW IF NOT EXISTS report_scenario AS
SELECT series, run.id AS run, scenario_text FROM chosen JOIN run ON run.id = chosen.run_id
ORDER BY series;

-- Cold and warm prompts, classes and tenants, where a workload has more than one of them.
CREATE TEMP VIEW IF NOT EXISTS report_groups AS
SELECT series, run_id AS run, kind, number, name, requests_total,
       100.0 * slo_met / nullif(requests_total, 0) AS slo_percent,
       ttft_p95_ps / 1e9 AS ttft_p95_ms, tpot_p95_ps / 1e9 AS tpot_p95_ms
FROM chosen JOIN run_group USING (run_id)
WHERE (SELECT count(*) FROM run_group AS other
       WHERE other.run_id = chosen.run_id AND other.kind = run_group.kind
         AND other.requests_total > 0) > 1
ORDER BY kind DESC, number, series;

-- What was changed in a run's trace or is odd about it, by the names that `run --json` uses.
CREATE TEMP VIEW IF NOT EXISTS report_notes AS
SELECT series, run.id AS run, 'change' AS kind, key AS name, value AS times
FROM chosen JOIN run ON run.id = chosen.run_id, json_each(summary_json, '$.trace.changes')
UNION ALL
SELECT series, run.id, 'note', key, value
FROM chosen JOIN run ON run.id = chosen.run_id, json_each(summary_json, '$.trace.notes')
ORDER BY series, kind, name;

-- Intervals from replicates (`run --intervals N`), where they were computed.
CREATE TEMP VIEW IF NOT EXISTS report_intervals AS
SELECT series, run.id AS run, key AS figure, json_extract(value, '$.p5') AS p5,
       json_extract(value, '$.p50') AS p50, json_extract(value, '$.p95') AS p95
FROM chosen JOIN run ON run.id = chosen.run_id, json_each(summary_json, '$.intervals.figures')
WHERE json_extract(value, '$.p50') IS NOT NULL
ORDER BY series, figure;
