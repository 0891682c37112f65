# What each figure of the HTML page must be, from the document of a run alone: {figure: value}. The
# page computes them in SQL, from other columns, so the two agree only when both are right.
def statistic($metric):
  .[$metric + "_ms"] as $s
  | reduce ("mean", "p50", "p90", "p95", "p99", "max") as $p
      ({}; .[$metric + "_" + $p + "_ms"] = $s[$p])
  | .[$metric + "_count"] = $s.count;
. as $run
| statistic("ttft") + statistic("tpot") + statistic("itl") + statistic("e2e")
+ ([ "kv_tokens", "max_running", "max_waiting", "preemptions", "output_tok_s",
     "goodput_req_s", "gpus", "requests_total"]
   | map({(.): $run[.]}) | add)
+ {oom_s: .oom.time_s, output_tok_s_gpu: .output_tok_s_per_gpu, usd_per_mtok: .cost_usd_per_mtok,
   kv_peak_percent: (100 * .kv_peak_pages / .pages),
   weights_gpu_gib: (.weights_per_gpu_bytes / 1073741824),
   kv_budget_gib: (.kv_budget_bytes / 1073741824),
   memory_weights_gib: (.weights_per_gpu_bytes / 1073741824),
   memory_kv_peak_gib: ([.kv_peak_pages * .page_size * .kv_bytes_per_token, .kv_budget_bytes] | min
                        / 1073741824),
   memory_kv_unused_gib: ((.kv_budget_bytes
                           - ([.kv_peak_pages * .page_size * .kv_bytes_per_token, .kv_budget_bytes]
                              | min)) / 1073741824),
   cache_hit_percent: (if .cache_hit_token_ratio then 100 * .cache_hit_token_ratio else null end),
   requests_unserved: (.requests_rejected + .requests_failed + .requests_timed_out),
   outside_percent: (if .busy_s > 0 then 100 * .trust.outside_s / .busy_s else null end),
   headroom_percent: (if .utilisation then 100 * .utilisation.headroom else null end),
   most_requests_per_s: .utilisation.most_requests_per_s,
   trace_span_s: .trace.span_s}
+ ((.trace.notes // {}) | with_entries(.key |= "note_" + .))
+ ((.trace.changes // {}) | with_entries(.key |= "change_" + .))
+ ((.intervals.figures // {}) | to_entries
   | map(.key as $k | .value | {("interval_\($k)_p5"): .p5, ("interval_\($k)_p50"): .p50,
                                ("interval_\($k)_p95"): .p95}) | add // {})
| with_entries(select(.value != null))
