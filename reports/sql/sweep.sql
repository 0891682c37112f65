-- Views for the figures of a sweep.
--
-- `kvcap report --sweep N` loads them and fills `chosen_sweep`; each view becomes one CSV file. By
-- hand:
--
--   sqlite3 kvcap.db
--   .read reports/sql/sweep.sql
--   INSERT INTO chosen_sweep VALUES (1, 'workload.closed.input', 'workload.closed.concurrency');
--   SELECT * FROM sweep_map;
--
-- A sweep has two axes, "across" and "load" (context and concurrency, context and rate); what else
-- it varies (precisions, cases) makes its series. All objects are temporary.

CREATE TEMP TABLE IF NOT EXISTS chosen_sweep (
  sweep_id INTEGER NOT NULL,
  across_key TEXT NOT NULL,  -- "" when nothing but the load and the series varies
  load_key TEXT NOT NULL
);

-- What the axes are called under a picture.
CREATE TEMP VIEW IF NOT EXISTS sweep_axis AS
WITH name AS (
  SELECT key, substr(key, length(rtrim(key, replace(key, '.', ''))) + 1) AS word
  FROM (SELECT across_key AS key FROM chosen_sweep UNION SELECT load_key FROM chosen_sweep)
),
title AS (
  SELECT key, CASE WHEN key = '' THEN 'none' -- gnuplot's CSV reader trips over empty texts
                   WHEN key LIKE '%.closed.input' THEN 'context: prompt tokens'
                   WHEN key LIKE '%.concurrency' THEN 'requests at once'
                   WHEN key LIKE '%.rate' THEN 'request rate (times the trace''s)'
                   ELSE replace(word, '_', ' ') END AS title
  FROM name
)
SELECT a.title AS across_title, l.title AS load_title
FROM chosen_sweep JOIN title AS a ON a.key = across_key JOIN title AS l ON l.key = load_key;

-- The keys that take more than one value, in the order in which they were given; `axis`: by itself,
-- not as part of a case; `amounts`: all its values are numbers.
CREATE TEMP VIEW IF NOT EXISTS sweep_key AS
SELECT sweep_id, key, min(position) AS position, count(DISTINCT value) AS count,
       instr(axes || char(10), 'axis ' || key || char(10)) > 0 AS axis,
       min(value GLOB '[0-9]*') AS amounts
FROM chosen_sweep JOIN point_set USING (sweep_id) JOIN sweep ON sweep.id = sweep_id
GROUP BY sweep_id, key HAVING count(DISTINCT value) > 1
ORDER BY min(position), key;

-- Values of the two axes with their rank along the axis: numbers (also 3/2) by size, words by their
-- first point.
CREATE TEMP VIEW IF NOT EXISTS sweep_value AS
WITH value AS (
  SELECT key, value, min(number) AS first_number,
         CASE WHEN value GLOB '[0-9]*/[1-9]*'
              THEN CAST(value AS REAL) / CAST(substr(value, instr(value, '/') + 1) AS REAL)
              WHEN value GLOB '[0-9]*' THEN CAST(value AS REAL) END AS amount
  FROM chosen_sweep JOIN point_set USING (sweep_id)
  WHERE key IN (across_key, load_key)
  GROUP BY key, value
)
SELECT key, value, amount,
       row_number() OVER (PARTITION BY key ORDER BY amount, first_number) - 1 AS place
FROM value;

-- The lines of the sweep's question, or of a plan's, from 1.
CREATE TEMP VIEW IF NOT EXISTS sweep_line AS
WITH RECURSIVE line (place, text, rest) AS (
  SELECT 0, '', axes || char(10) FROM chosen_sweep JOIN sweep ON sweep.id = sweep_id
  UNION ALL
  SELECT place + 1, substr(rest, 1, instr(rest, char(10)) - 1),
         substr(rest, instr(rest, char(10)) + 1)
  FROM line WHERE rest <> '' AND place < 100000
)
SELECT place, text FROM line WHERE place > 0;

-- Labels of the cases (`--case "LABEL: ..."`): lines of the axes' text between "axis case" and the
-- next axis. Of labels in parts ("weights fp8, KV bf16") the parts that all share are left out.
CREATE TEMP VIEW IF NOT EXISTS sweep_case AS
WITH RECURSIVE line (place, text) AS MATERIALIZED (SELECT place, text FROM sweep_line),
whole (number, label) AS MATERIALIZED (
  SELECT row_number() OVER (ORDER BY place) - 1, trim(substr(text, 1, instr(text, ': ') - 1))
  FROM line
  WHERE text GLOB '  *: *'
    AND place > (SELECT min(place) FROM line WHERE text = 'axis case')
    AND place < (SELECT coalesce(min(place), 1e9) FROM line
                 WHERE text GLOB 'axis *' AND text <> 'axis case'
                   AND place > (SELECT min(place) FROM line WHERE text = 'axis case'))
),
part (number, place, text, rest) AS (
  SELECT number, -1, '', label || ', ' FROM whole
  UNION ALL
  SELECT number, place + 1, substr(rest, 1, instr(rest, ', ') - 1),
         substr(rest, instr(rest, ', ') + 2)
  FROM part WHERE rest <> ''
),
own AS MATERIALIZED (
  SELECT number, place, text FROM part
  WHERE place >= 0 AND (place, text) NOT IN (
    SELECT place, text FROM part GROUP BY place, text
    HAVING count(*) = (SELECT count(*) FROM whole))
)
SELECT number, coalesce((SELECT group_concat(text, ', ')
                         FROM (SELECT text FROM own WHERE own.number = whole.number
                               ORDER BY place)), label) AS label
FROM whole;

-- The series of each point: the label of its case, then the values of every other key that varies
-- and is neither axis nor part of the cases; bare numbers and truths with the last word of their
-- key. Without commas and quotation marks, which gnuplot's CSV reader cannot take back.
CREATE TEMP VIEW IF NOT EXISTS sweep_series AS
WITH cases AS (SELECT count(*) AS count FROM sweep_case),
case_of AS (
  SELECT point.number AS number,
         (SELECT label FROM sweep_case
          WHERE sweep_case.number = point.number / (sweep.points / cases.count)) AS label
  FROM chosen_sweep JOIN sweep ON sweep.id = chosen_sweep.sweep_id
  JOIN point ON point.sweep_id = sweep.id, cases
  WHERE cases.count > 0
),
word AS (
  SELECT point_set.number AS number, position,
         CASE WHEN value GLOB '[0-9]*' OR value IN ('true', 'false')
              THEN substr(key, length(rtrim(key, replace(key, '.', ''))) + 1) || ' ' || value
              ELSE value END AS word
  FROM chosen_sweep JOIN point_set USING (sweep_id)
  JOIN sweep_key USING (sweep_id, key, position)
  WHERE key NOT IN (across_key, load_key) AND axis
)
SELECT point.number AS number,
       replace(replace(coalesce(
         nullif(coalesce((SELECT label FROM case_of WHERE case_of.number = point.number), '')
                || coalesce((SELECT CASE WHEN EXISTS (SELECT 1 FROM case_of) THEN ' · ' ELSE '' END
                                    || group_concat(word, ' · ')
                             FROM (SELECT word FROM word WHERE word.number = point.number
                                   ORDER BY position)
                             HAVING count(*) > 0), ''), ''),
         'all'), ',', ' ·'), '"', '''') AS label
FROM chosen_sweep JOIN point USING (sweep_id);

-- One row per point, with the figures that pictures need.
CREATE TEMP VIEW IF NOT EXISTS sweep_point AS
WITH figure AS (
  SELECT point_figure.number AS number,
         max(value) FILTER (WHERE figure = 'oom') AS oom,
         max(value) FILTER (WHERE figure = 'oom_s') AS oom_s,
         max(value) FILTER (WHERE figure = 'preemptions') AS preemptions,
         max(value) FILTER (WHERE figure = 'max_running') AS max_running,
         max(value) FILTER (WHERE figure = 'max_waiting') AS max_waiting,
         max(value) FILTER (WHERE figure = 'slo_share') AS slo_share,
         max(value) FILTER (WHERE figure = 'rejected_share') AS rejected_share,
         max(value) FILTER (WHERE figure = 'failed_share') AS failed_share,
         max(value) FILTER (WHERE figure = 'request_s') AS request_s,
         max(value) FILTER (WHERE figure = 'makespan_s') AS makespan_s,
         max(value) FILTER (WHERE figure = 'completed_share') AS completed_share,
         max(value) FILTER (WHERE figure = 'requests_fit') AS requests_fit,
         max(value) FILTER (WHERE figure = 'gpus') AS gpus,
         max(value) FILTER (WHERE figure = 'kv_tokens') AS kv_tokens,
         max(value) FILTER (WHERE figure = 'kv_room_gib') AS kv_room_gib,
         max(value) FILTER (WHERE figure = 'weights_gpu_gib') AS weights_gpu_gib,
         max(value) FILTER (WHERE figure = 'output_tok_s') AS output_tok_s,
         max(value) FILTER (WHERE figure = 'output_tok_s_gpu') AS output_tok_s_gpu,
         max(value) FILTER (WHERE figure = 'output_tok_s_user') AS output_tok_s_user,
         max(value) FILTER (WHERE figure = 'ttft_p95_ms') AS ttft_p95_ms,
         max(value) FILTER (WHERE figure = 'tpot_p95_ms') AS tpot_p95_ms,
         max(value) FILTER (WHERE figure = 'usd_per_mtok') AS usd_per_mtok
  FROM chosen_sweep JOIN point_figure USING (sweep_id) GROUP BY point_figure.number
),
named AS (
  SELECT point.number AS number, status, trust, label,
         coalesce((SELECT value FROM point_set AS s WHERE s.sweep_id = point.sweep_id
                     AND s.number = point.number AND key = across_key), '-') AS across,
         coalesce((SELECT value FROM point_set AS s WHERE s.sweep_id = point.sweep_id
                     AND s.number = point.number AND key = load_key), '-') AS load,
         across_key, load_key
  FROM chosen_sweep JOIN point USING (sweep_id) JOIN sweep_series USING (number)
)
SELECT dense_rank() OVER (ORDER BY first_number) - 1 AS series, named.label AS label,
       named.number AS point, status, trust,
       across, coalesce(a.place, 0) AS across_place, a.amount AS across_amount,
       load, coalesce(l.place, 0) AS load_place, l.amount AS load_amount,
       -- The worst that holds; every term is said in reports/README.md and on the picture.
       CASE WHEN status IN ('refused', 'failed') THEN 'unknown'
            WHEN status = 'no_fit' THEN 'no_fit'
            WHEN preemptions > 0.05 * request_s * makespan_s / nullif(completed_share, 0)
            THEN 'thrashing'
            WHEN oom > 0 OR rejected_share + failed_share > 0 THEN 'oom'
            WHEN max_waiting > 0.25 * max_running THEN 'queueing'
            WHEN slo_share < 0.95 THEN 'slow'
            ELSE 'safe' END AS region,
       figure.oom, oom_s, preemptions, max_running, max_waiting, slo_share, requests_fit, gpus,
       kv_tokens, kv_room_gib / gpus AS kv_gpu_gib, weights_gpu_gib, output_tok_s,
       output_tok_s_gpu, output_tok_s_user, ttft_p95_ms, tpot_p95_ms, usd_per_mtok
FROM named
JOIN (SELECT label, min(number) AS first_number FROM sweep_series GROUP BY label) USING (label)
LEFT JOIN figure USING (number)
LEFT JOIN sweep_value AS a ON a.key = across_key AND a.value = across
LEFT JOIN sweep_value AS l ON l.key = load_key AND l.value = load
ORDER BY series, across_place, load_place, point;

-- The map: a panel a series, a cell a point. Nothing when only one axis varies.
CREATE TEMP VIEW IF NOT EXISTS sweep_map AS
SELECT series, label, across_place, across, across_title, load_place, load, load_title, region,
       point
FROM sweep_point, sweep_axis WHERE (SELECT across_key FROM chosen_sweep) <> ''
ORDER BY series, across_place, load_place, point;

-- How many requests of full length fit at once, over the context: from memory alone (every across
-- value, whatever was run), and the largest load that was run without wanting more memory than
-- there is. Only where the load is a number of requests and the context is varied.
CREATE TEMP VIEW IF NOT EXISTS sweep_frontier AS
SELECT series, label, across_place, across, across_amount, across_title,
       max(requests_fit) AS requests_fit,
       max(load_amount) FILTER (WHERE oom = 0) AS requests_ran
FROM sweep_point, sweep_axis
WHERE requests_fit IS NOT NULL AND across_amount IS NOT NULL
GROUP BY series, label, across_place, across, across_amount
ORDER BY series, across_place;

-- Tokens per second of a GPU against those of a user, by value across; `best` marks what no other
-- point of that value beats in both.
CREATE TEMP VIEW IF NOT EXISTS sweep_pareto AS
WITH ran AS (
  SELECT * FROM sweep_point
  WHERE output_tok_s_gpu IS NOT NULL AND output_tok_s_user IS NOT NULL AND oom = 0
)
SELECT series, label, across_place, across, across_title, load_place, load, output_tok_s_user,
       output_tok_s_gpu,
       NOT EXISTS (SELECT 1 FROM ran AS other
                   WHERE other.across_place = ran.across_place
                     AND other.output_tok_s_user >= ran.output_tok_s_user
                     AND other.output_tok_s_gpu >= ran.output_tok_s_gpu
                     AND (other.output_tok_s_user > ran.output_tok_s_user
                          OR other.output_tok_s_gpu > ran.output_tok_s_gpu)) AS best, point
FROM ran, sweep_axis ORDER BY across_place, series, load_place, point;

-- Price of a million output tokens over the load: a panel for each value across, a line a series.
CREATE TEMP VIEW IF NOT EXISTS sweep_cost AS
SELECT series, label, across_place, across, across_title, load_place, load, load_amount, load_title,
       usd_per_mtok, oom, point
FROM sweep_point, sweep_axis WHERE usd_per_mtok IS NOT NULL AND load_amount IS NOT NULL
ORDER BY across_place, series, load_amount, point;

-- Memory of one GPU by series: weights and room for KV, and the tokens that it holds.
CREATE TEMP VIEW IF NOT EXISTS sweep_memory AS
SELECT series, label, weights_gpu_gib, kv_gpu_gib, kv_tokens, min(point) AS point
FROM sweep_point WHERE weights_gpu_gib IS NOT NULL AND kv_gpu_gib IS NOT NULL
GROUP BY series, label, weights_gpu_gib, kv_gpu_gib, kv_tokens
ORDER BY series, point;

-- The peak of each series: the most output among the points that never want more memory than there
-- is, its load, what a token costs there, and where memory ends. Without a load that varies, as in
-- a table of precisions on a trace, a series is judged by the point that it has. Changes are
-- against series 0.
CREATE TEMP VIEW IF NOT EXISTS sweep_peak AS
WITH fit AS (
  SELECT *, row_number() OVER (PARTITION BY series, across_place
                               ORDER BY output_tok_s DESC, point) AS place,
         max(load_amount) OVER (PARTITION BY series, across_place) AS largest_load
  FROM sweep_point WHERE output_tok_s IS NOT NULL
    AND (oom = 0 OR (SELECT load_key FROM chosen_sweep) = '')
),
peak AS (SELECT * FROM fit WHERE place = 1)
SELECT peak.series AS series, peak.label AS label, peak.across_place AS across_place,
       peak.across AS across, peak.load AS load, peak.load_amount AS load_amount,
       peak.output_tok_s AS output_tok_s, peak.usd_per_mtok AS usd_per_mtok,
       peak.largest_load AS largest_load, peak.requests_fit AS requests_fit,
       peak.kv_tokens AS kv_tokens, peak.point AS point, peak.trust AS trust,
       peak.ttft_p95_ms AS ttft_p95_ms, peak.tpot_p95_ms AS tpot_p95_ms,
       100 * (peak.output_tok_s / base.output_tok_s - 1) AS output_change_percent,
       100 * (peak.usd_per_mtok / base.usd_per_mtok - 1) AS cost_change_percent
FROM peak LEFT JOIN peak AS base ON base.series = 0 AND base.across_place = peak.across_place
ORDER BY peak.across_place, peak.series;

-- Series of which no point fits.
CREATE TEMP VIEW IF NOT EXISTS sweep_unfit AS
SELECT series, label, min(point) AS point FROM sweep_point
GROUP BY series, label HAVING min(status = 'no_fit') = 1 ORDER BY series;

-- Series, by value across, that have no peak although points of them ran: every one wants more
-- memory than there is. `load`: the least that was run.
CREATE TEMP VIEW IF NOT EXISTS sweep_starved AS
WITH ran AS (
  SELECT *, max(oom = 0) OVER (PARTITION BY series, across_place) AS within,
         row_number() OVER (PARTITION BY series, across_place ORDER BY load_place, point) AS place
  FROM sweep_point WHERE output_tok_s IS NOT NULL
)
SELECT series, label, across_place, across, load, point FROM ran WHERE place = 1 AND NOT within
ORDER BY series, across_place;

-- Output over the load, every point that ran, of the series that have a peak (`place` counts them);
-- the peaks carry the figures of sweep_peak. For the first value across alone: one question, one
-- picture.
CREATE TEMP VIEW IF NOT EXISTS sweep_gain AS
SELECT (SELECT replace(replace(name, ',', ' ·'), '"', '''') FROM sweep JOIN chosen_sweep
        ON sweep.id = sweep_id)
       || CASE WHEN p.across = '-' THEN '' ELSE ' · ' || across_title || ' ' || p.across END
       AS title,
       p.series AS series, dense_rank() OVER (ORDER BY p.series) - 1 AS place,
       p.label AS label, p.load AS load, p.load_amount AS load_amount, load_title,
       p.output_tok_s AS output_tok_s, p.oom AS oom, peak.point IS NOT NULL AS peak,
       output_change_percent, peak.usd_per_mtok AS usd_per_mtok, cost_change_percent,
       peak.largest_load AS largest_load, peak.requests_fit AS requests_fit, p.point AS point
FROM sweep_point AS p, sweep_axis LEFT JOIN sweep_peak AS peak ON peak.point = p.point
WHERE p.output_tok_s IS NOT NULL AND p.load_amount IS NOT NULL AND p.across_place = 0
  AND p.series IN (SELECT series FROM sweep_peak WHERE across_place = 0)
  AND (SELECT count(DISTINCT series) FROM sweep_peak WHERE across_place = 0) <= 8
ORDER BY p.series, p.load_amount, p.point;

-- What it is: with `of_plan` the points are what a plan's search ran, and its axes are text of
-- another form than a sweep's (plan.sql).
CREATE TEMP VIEW IF NOT EXISTS sweep_kind AS
SELECT axes GLOB 'gpu=*' AS of_plan FROM chosen_sweep JOIN sweep ON sweep.id = sweep_id;

-- How much there is to draw.
CREATE TEMP VIEW IF NOT EXISTS sweep_size AS
SELECT count(*) AS points, max(series) + 1 AS series, max(across_place) + 1 AS across,
       max(load_place) + 1 AS loads
FROM sweep_point;

-- The question itself.
CREATE TEMP VIEW IF NOT EXISTS sweep_question AS
SELECT sweep.id AS sweep, name, sweep_sha256, scenario_sha256, scenario_text, sets, axes, points,
       (SELECT count(*) FROM point WHERE point.sweep_id = sweep.id) AS points_there,
       across_title, load_title
FROM chosen_sweep JOIN sweep ON sweep.id = sweep_id, sweep_axis;

-- How far its points can be trusted.
CREATE TEMP VIEW IF NOT EXISTS sweep_trust AS
SELECT coalesce(trust, CASE status WHEN 'done' THEN 'derived' ELSE status END) AS trust,
       count(*) AS points
FROM chosen_sweep JOIN point USING (sweep_id) GROUP BY 1 ORDER BY count(*) DESC, 1;
