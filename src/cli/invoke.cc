// `sluice invoke FUNCTION`: one request through the gateway, and its answer.
#include <CLI/CLI.hpp>
#include <iostream>

#include "base/clock.h"
#include "cli/payload.h"
#include "cli/session.h"
#include "cli/table.h"
#include "model/function.h"

namespace sluice::cli {
namespace {

using wire::http::verb;

struct InvokeFlags {
  std::string function, body, token;
  int batch = 1;
};

Result<void> invoke(const Session& session, const InvokeFlags& f) {
  SLUICE_ASSIGN(gateway, session.gateway());
  wire::HttpRequest request{verb::post,
                            "/v2/models/" + served_name(function_name(f.function)) + "/infer", 11};
  request.set(wire::http::field::content_type, "application/json");
  if (!f.token.empty()) request.set(wire::http::field::authorization, "Bearer " + f.token);
  if (!f.body.empty()) {
    SLUICE_ASSIGN(text, read_file(f.body));
    request.body() = text;
  } else {
    SLUICE_ASSIGN(info, session.api(verb::get, function_path(f.function)));
    SLUICE_ASSIGN(payload, make_payload(info["inputs"], f.batch, 1));
    request.set("Inference-Header-Content-Length", std::to_string(payload.json_bytes));
    request.body() = payload.body;
  }
  wire::HttpClient client(gateway, Seconds(300));
  const SteadyClock clock;
  const Time sent = clock.now();
  SLUICE_ASSIGN(answer, client.send(request));
  const Nanos took = clock.now() - sent;
  const std::string length(answer["Inference-Header-Content-Length"]);
  const std::string head =
      answer.body().substr(0, length.empty() ? std::string::npos : std::stoul(length));
  SLUICE_ASSIGN(parsed, wire::parse_json(head));
  if (answer.result_int() != 200)
    return Error{wire::error_kind(static_cast<int>(answer.result_int())),
                 parsed.value("error", head)};
  if (session.json()) {
    print({{"status", answer.result_int()}, {"latency_ms", millis(took)}, {"answer", parsed}});
  } else {
    std::cout << "200 in " << fixed(millis(took), 2) << " ms, " << answer.body().size()
              << " bytes\n";
    for (const auto& output : parsed["outputs"])
      std::cout << "  " << output.value("name", "") << " " << output.value("datatype", "") << " "
                << output["shape"].dump() << "\n";
  }
  return {};
}

}  // namespace

void add_invoke(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<InvokeFlags>();
  CLI::App* command = app.add_subcommand("invoke", "send one request to a function");
  command->add_option("function", f->function)->required();
  command->add_option(
      "--body", f->body,
      "file with the request's JSON (- is standard input); without: made up from the signature");
  command->add_option("--batch", f->batch, "of what is made up")->check(CLI::Range(1, 1024));
  command->add_option("--token", f->token, "the function's");
  command->callback([=, &session, &outcome] { outcome = invoke(session, *f); });
}

}  // namespace sluice::cli
