# What each figure of the HTML page must be, from the document of a run alone: {figure: value}. The
# page computes them in SQL, from other columns, so the two agree only when both are right.
def statistic($metric):
  .[$metric + "_ms"] as $s
  | reduce ("mean", "p50", "p90", "p95", "p99", "max") as $p
      ({}; .[$metric + "_" + $p + "_ms"] = $s[$p])
  | .[$metric + "_count"] = $s.count;
. as $run
| (.fleet.fullest_kv_peak_pages // .kv_peak_pages) as $peak_pages
| statistic("ttft") + statistic("tpot") + statistic("itl") + statistic("e2e")
+ ([ "kv_tokens", "max_running", "max_waiting", "preemptions", "output_tok_s",
     "goodput_req_s", "gpus", "requests_total"]
   | map({(.): $run[.]}) | add)
+ {oom_s: .oom.time_s, output_tok_s_gpu: .output_tok_s_per_gpu, usd_per_mtok: .cost_usd_per_mtok,
   kv_peak_percent: (100 * .kv_peak_pages / .pages / .replicas), replicas: .replicas,
   weights_gpu_gib: (.weights_per_gpu_bytes / 1073741824),
   kv_budget_gib: (.kv_budget_bytes / 1073741824),
   memory_weights_gib: (.weights_per_gpu_bytes / 1073741824),
   memory_kv_peak_gib: ([$peak_pages * .page_size * .kv_bytes_per_token, .kv_budget_bytes] | min
                        / 1073741824),
   memory_kv_unused_gib: ((.kv_budget_bytes
                           - ([$peak_pages * .page_size * .kv_bytes_per_token, .kv_budget_bytes]
                              | min)) / 1073741824),
   cache_hit_percent: (if .cache_hit_token_ratio then 100 * .cache_hit_token_ratio else null end),
   requests_unserved: (.requests_rejected + .requests_failed + .requests_timed_out),
   usd_total: .cost.usd, gpu_hour_usd: .cost.price.gpu_hour_usd, gpu_hours: .cost.gpu_hours,
   idle_percent: (if .cost then 100 * .cost.idle_gpu_hours / .cost.gpu_hours else null end),
   cold_percent: (if .cost then 100 * .cost.cold_gpu_hours / .cost.gpu_hours else null end),
   usd_per_mtok_input: .cost.usd_per_mtok_input, usd_per_mtok_cached: .cost.usd_per_mtok_cached,
   usd_per_mtok_output: .cost.usd_per_mtok_output,
   api_usd: .cost.api.usd, api_ratio: .cost.api.ratio,
   break_even_req_s: .cost.api.break_even_requests_per_s,
   break_even_percent: (if .cost.api.break_even_share then 100 * .cost.api.break_even_share
                        else null end),
   kwh: .energy.kwh, joules_per_token: .energy.joules_per_token, energy_usd: .energy.usd,
   idle_w: .energy.idle_w, power_w: .energy.power_w, pue: .energy.pue,
   outside_percent: (if .busy_s > 0 then 100 * .trust.outside_s / .busy_s else null end),
   headroom_percent: (if .utilisation then 100 * .utilisation.headroom else null end),
   most_requests_per_s: .utilisation.most_requests_per_s,
   trace_span_s: .trace.span_s}
+ ((.trace.notes // {}) | with_entries(.key |= "note_" + .))
+ ((.trace.changes // {}) | with_entries(.key |= "change_" + .))
+ ((.intervals.figures // {}) | to_entries
   | map(.key as $k | .value | {("interval_\($k)_p5"): .p5, ("interval_\($k)_p50"): .p50,
                                ("interval_\($k)_p95"): .p95}) | add // {})
+ ((.fleet.each // []) | to_entries
   | map(.key as $k | .value | {("replica_\($k)_requests"): .requests,
                                ("replica_\($k)_output_tokens"): .output_tokens,
                                ("replica_\($k)_max_running"): .max_running,
                                ("replica_\($k)_max_waiting"): .max_waiting,
                                ("replica_\($k)_kv_peak_percent"):
                                  (100 * .kv_peak_pages / $run.pages)}) | add // {})
| with_entries(select(.value != null))
