// `sluice invoke FUNCTION`: one request through the gateway, and its answer.
#include <CLI/CLI.hpp>
#include <iostream>

#include "base/clock.h"
#include "cli/payload.h"
#include "cli/session.h"
#include "cli/table.h"
#include "wire/json/non_finite.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

constexpr size_t kShownValues = 20;  // of an output; -o json prints all

struct InvokeFlags {
  std::string function, body, token;
  int batch = 1;
  bool values = false;
};

Result<wire::HttpRequest> request_of(const Session& session, const InvokeFlags& f) {
  wire::HttpRequest request{verb::post,
                            "/v2/models/" + served_name(session.named(f.function)) + "/infer", 11};
  request.set(wire::http::field::content_type, "application/json");
  if (!f.token.empty()) request.set(wire::http::field::authorization, "Bearer " + f.token);
  if (!f.body.empty()) {
    SLUICE_ASSIGN(text, read_file(f.body));
    request.body() = text;
    return request;
  }
  SLUICE_ASSIGN(info, session.api(verb::get, session.function_path(f.function)));
  SLUICE_ASSIGN(payload, make_payload(info["inputs"], f.batch, 1, f.values));
  request.set("Inference-Header-Content-Length", std::to_string(payload.json_bytes));
  request.body() = payload.body;
  return request;
}

// Turns NaN and infinities, which an answer has bare, into strings.
Result<json> parse_answer(const std::string& text) {
  auto parsed = wire::parse_json(text);
  if (parsed.ok()) return parsed;
  const auto quoted = wire::wrap_non_finite(text, "\"", "\"");
  return quoted ? wire::parse_json(*quoted) : parsed;
}

std::string values_of(const json& data) {
  std::string out;
  for (size_t i = 0; i < data.size() && i < kShownValues; ++i)
    out += (i == 0 ? "" : " ") + data[i].dump(-1, ' ', false, json::error_handler_t::replace);
  if (data.size() > kShownValues)
    out += " … " + std::to_string(data.size() - kShownValues) + " more (-o json prints all)";
  return out;
}

void print_answer(const json& answer, bool values) {
  for (const json& output : answer.value("outputs", json::array())) {
    std::cout << "  " << output.value("name", "") << " " << output.value("datatype", "") << " "
              << output.value("shape", json::array()).dump() << "\n";
    if (values && output.contains("data"))
      std::cout << "    " << values_of(output["data"]) << "\n";
    else if (values)
      std::cout << "    (binary: the request in --body asked for it)\n";
  }
}

Result<void> invoke(const Session& session, const InvokeFlags& f) {
  SLUICE_ASSIGN(gateway, session.gateway());
  SLUICE_ASSIGN(request, request_of(session, f));
  wire::HttpClient client(gateway, Seconds(300));
  const SteadyClock clock;
  const Time sent = clock.now();
  auto answer = client.send(request);
  const Nanos took = clock.now() - sent;
  if (!answer.ok() && answer.error().kind == ErrorKind::kUnavailable)
    return session.nobody(answer.error().message);
  if (!answer.ok()) return answer.error();
  const std::string length((*answer)["Inference-Header-Content-Length"]);
  const std::string head =
      answer->body().substr(0, length.empty() ? std::string::npos : std::stoul(length));
  if (answer->result_int() != 200) return refused(static_cast<int>(answer->result_int()), head);
  SLUICE_ASSIGN(parsed, parse_answer(head));
  if (session.json()) {
    print({{"status", answer->result_int()}, {"latency_ms", millis(took)}, {"answer", parsed}});
    return {};
  }
  std::cout << "200 in " << fixed(millis(took), 2) << " ms, " << answer->body().size()
            << " bytes\n";
  print_answer(parsed, f.values);
  return {};
}

}  // namespace

void add_invoke(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<InvokeFlags>();
  CLI::App* command =
      app.add_subcommand("invoke",
                         "send one request to a function.\n"
                         "Exit code 5 where it is shed or no instance can be had (429, 503)");
  command->add_option("function", f->function)->required();
  command->add_option(
      "--body", f->body,
      "file with the request's JSON (- is standard input); without: made up from the signature");
  command->add_option("--batch", f->batch, "of what is made up")->check(CLI::Range(1, 1024));
  command->add_flag("--print", f->values, "the values of the answer, too");
  command->add_option("--token", f->token, "the function's");
  add_namespace(*command, session);
  command->callback([=, &session, &outcome] { outcome = invoke(session, *f); });
}

}  // namespace sluice::cli
