// The node API: HTTP and JSON on node.sock (docs/design/processes.md) in front of a Daemon.
#pragma once

#include "node/daemon.h"
#include "wire/http/http.h"

namespace sluice::node {

// The handler for an HttpServer on the daemon's io_context. `daemon` must outlive the server.
wire::HttpHandler node_api(Daemon& daemon);

nlohmann::json to_json(const InstanceRecord& record);
nlohmann::json to_json(const DaemonView& view);
Result<StartRequest> start_request_from(const nlohmann::json& body);
Result<ProcessRequest> process_request_from(const nlohmann::json& body);
Result<PodRequest> pod_request_from(const nlohmann::json& body);

}  // namespace sluice::node
