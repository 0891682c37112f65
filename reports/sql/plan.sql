-- Views for the page of a plan.
--
-- `kvcap report --sweep N --html FILE` loads them after sweep.sql, whose `chosen_sweep` names the
-- plan. By hand:
--
--   sqlite3 kvcap.db
--   .read reports/sql/sweep.sql
--   .read reports/sql/plan.sql
--   INSERT INTO chosen_sweep VALUES (1, '', '');
--   SELECT * FROM plan_tried;
--
-- Prices and GPUs are as bought, spare replicas and all. "Used" is the worst figure as percent of
-- its limit: above 100 a limit is missed. All objects are temporary.

-- The question and the answer. `shown`: the point that the page speaks of, the winner or else the
-- best there is.
CREATE TEMP VIEW IF NOT EXISTS plan_question AS
SELECT sweep.id AS sweep, substr(name, 1 + 6 * (name GLOB 'plan: *')) AS name, sweep_sha256,
       scenario_sha256, scenario_text, sets, axes, objective, spare,
       100 * headroom AS headroom_percent, 100 * lost AS lost_percent, budget_usd_hour, gpus_max,
       coalesce(winner, near_miss) AS shown, winner, as_bought, runner_up, near_miss, limited_by,
       nearest, 100 * prefill_share AS prefill_percent, 100 * decode_share AS decode_percent,
       100 * host_share AS host_percent, 100 * idle_share AS idle_percent,
       100 * memory_share AS memory_percent, command, command_bought, combinations, no_fit,
       refused, candidates, runs, runs_after, by_price, by_bound, by_twin, by_replicas, by_faster,
       by_replicas + by_faster AS by_assumption, why_no_fit, why_refused,
       (SELECT value FROM point_figure AS f WHERE f.sweep_id = sweep.id
        AND f.number = as_bought AND figure = 'usd_per_mtok') AS usd_per_mtok
FROM chosen_sweep JOIN sweep ON sweep.id = chosen_sweep.sweep_id JOIN plan USING (sweep_id);

-- What was run, the best first; `series` counts the kinds of GPU. `why`: what kept it from the
-- answer. Without a ratio (a figure that does not exist) nothing is used.
CREATE TEMP VIEW IF NOT EXISTS plan_tried AS
WITH kind AS (
  SELECT gpu, row_number() OVER (ORDER BY min(number)) - 1 AS series
  FROM chosen_sweep JOIN plan_candidate USING (sweep_id) GROUP BY gpu
)
SELECT c.number AS point, series, c.gpu AS gpu, replicas, replicas + spare AS bought, spare,
       gpus_replica, tensor, weights, kv, page_size, chunk, max_running, gpus, usd_hour,
       CASE WHEN excess < 1e9 THEN 100 * excess END AS used_percent, excess <= 1 AS meets,
       CASE c.number WHEN winner THEN 'winner' WHEN runner_up THEN 'runner-up'
                     WHEN near_miss THEN iif(winner IS NULL, 'best there is', 'nearest miss')
                     ELSE '' END AS role,
       CASE WHEN point.status <> 'done' THEN point.reason WHEN excess <= 1 THEN ''
            WHEN r.text IS NULL THEN 'requests were lost'
            WHEN excess >= 1e9 THEN r.figure || ' does not exist'
            ELSE r.text END AS why,
       trust, r.figure AS worst_figure, f.value AS worst_value
FROM chosen_sweep JOIN plan USING (sweep_id) JOIN plan_candidate AS c USING (sweep_id)
JOIN kind ON kind.gpu = c.gpu
JOIN point ON point.sweep_id = c.sweep_id AND point.number = c.number
LEFT JOIN plan_requirement AS r ON r.sweep_id = c.sweep_id AND r.position = c.worst
LEFT JOIN point_figure AS f ON f.sweep_id = c.sweep_id AND f.number = c.number
                           AND f.figure = r.figure
ORDER BY c.number IS NOT winner, excess > 1, usd_hour, gpus, c.number;

-- The requirements, and how the point that the page speaks of meets them.
CREATE TEMP VIEW IF NOT EXISTS plan_limit AS
SELECT position, r.text AS text, r.figure AS figure, wants_low, limit_value, f.value AS value,
       f.number AS point,
       CASE WHEN f.value > 0 AND limit_value > 0
            THEN 100 * iif(wants_low, f.value / limit_value, limit_value / f.value) END
       AS used_percent,
       iif(wants_low, f.value <= limit_value, f.value >= limit_value) AS met
FROM chosen_sweep JOIN plan USING (sweep_id) JOIN plan_requirement AS r USING (sweep_id)
LEFT JOIN point_figure AS f ON f.sweep_id = r.sweep_id AND f.figure = r.figure
                           AND f.number = coalesce(winner, near_miss)
ORDER BY position;

-- The figures that are limited, of everything that was run; `picture` counts the requirements.
CREATE TEMP VIEW IF NOT EXISTS plan_value AS
SELECT t.point AS point, series, role, meets, r.position AS position, r.figure AS figure,
       r.text AS text, r.limit_value AS limit_value, f.value AS value, usd_hour, gpus
FROM chosen_sweep JOIN plan_requirement AS r USING (sweep_id) JOIN plan_tried AS t
JOIN point_figure AS f ON f.sweep_id = r.sweep_id AND f.number = t.point AND f.figure = r.figure
ORDER BY r.position, t.point;

-- One more unit of each resource: the winner with one thing changed.
CREATE TEMP VIEW IF NOT EXISTS plan_more AS
SELECT position, what, number AS point, why, gpus, usd_hour, 100 * excess AS used_percent,
       excess > 1 AS misses
FROM chosen_sweep JOIN plan_unit USING (sweep_id) ORDER BY position;

-- Their figures.
CREATE TEMP VIEW IF NOT EXISTS plan_more_value AS
SELECT u.position AS position, r.position AS requirement, r.figure AS figure, u.number AS point,
       f.value AS value
FROM chosen_sweep JOIN plan_unit AS u USING (sweep_id) JOIN plan_requirement AS r USING (sweep_id)
LEFT JOIN point_figure AS f ON f.sweep_id = r.sweep_id AND f.number = u.number
                           AND f.figure = r.figure
ORDER BY u.position, r.position;

-- The lines of the question, each an option of `kvcap plan`: `name` is "" for a requirement.
CREATE TEMP VIEW IF NOT EXISTS plan_option AS
SELECT place, iif(text GLOB '*[<>]*', '', substr(text, 1, instr(text, '=') - 1)) AS name,
       iif(text GLOB '*[<>]*', text, substr(text, instr(text, '=') + 1)) AS value
FROM sweep_line WHERE text <> '' AND text NOT GLOB 'spare=* headroom=*' ORDER BY place;
