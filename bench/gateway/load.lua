-- wrk's side of bench_gateway: BENCH_BODY bytes per request; one line for the program to read.
wrk.method = "POST"
wrk.path = "/v2/models/bench/infer"
wrk.headers["Content-Type"] = "application/octet-stream"
wrk.body = string.rep("x", tonumber(os.getenv("BENCH_BODY")))

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %d %d %d\n", summary.requests, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
