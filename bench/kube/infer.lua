-- wrk's side of k8s-gateway: inferences of a model (MODEL) with one row of FLOATS zeros, each connection at
-- random intervals of PAUSE_MS on average; one line for the script to read, in microseconds.
local bytes = 4 * tonumber(os.getenv("FLOATS"))
local pause = tonumber(os.getenv("PAUSE_MS"))
local head = string.format('{"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, %d], ' ..
  '"parameters": {"binary_data_size": %d}}]}', bytes / 4, bytes)

wrk.method = "POST"
wrk.path = "/v2/models/" .. os.getenv("MODEL") .. "/infer"
wrk.headers["Content-Type"] = "application/octet-stream"
wrk.headers["Inference-Header-Content-Length"] = #head
wrk.body = head .. string.rep("\0", bytes)

function delay()
  return math.random(0, 2 * pause)
end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %d %d %d\n", summary.requests,
    e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(95), latency:percentile(99)))
end
