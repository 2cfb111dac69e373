// `sluice invoke FUNCTION`: one request through the gateway, and its answer.
#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>

#include "base/clock.h"
#include "cli/limits.h"
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
  std::string function, body, token, path, method;
  int batch = 1;
  bool values = false;
};

// Of a function that is asked below /functions/NAME/.
Result<wire::HttpRequest> request_by_path(const Session& session, const InvokeFlags& f) {
  const std::string method = !f.method.empty() ? f.method : f.body.empty() ? "GET" : "POST";
  wire::HttpRequest request;
  request.version(11);
  request.method_string(method);
  request.target("/functions/" + served_name(session.named(f.function)) + f.path);
  if (!f.token.empty()) request.set(wire::http::field::authorization, "Bearer " + f.token);
  if (f.body.empty()) return request;
  SLUICE_ASSIGN(text, read_file(f.body));
  request.body() = text;
  return request;
}

Result<wire::HttpRequest> request_of(const Session& session, const InvokeFlags& f) {
  if (!f.path.empty()) return request_by_path(session, f);
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

// A program's answer: its body as it is.
Result<void> print_raw(const Session& session, const wire::HttpResponse& answer, Nanos took) {
  const unsigned status = answer.result_int();
  if (status >= 300)
    return refused(static_cast<int>(status), std::to_string(status) + ": " + answer.body());
  if (session.json()) {
    print({{"status", status}, {"latency_ms", millis(took)}, {"body", answer.body()}});
    return {};
  }
  std::cerr << status << " in " << fixed(millis(took), 2) << " ms, " << answer.body().size()
            << " bytes\n";
  std::cout << answer.body() << std::flush;
  return {};
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
  if (!f.path.empty()) return print_raw(session, *answer, took);
  const std::string length((*answer)["Inference-Header-Content-Length"]);
  size_t json_bytes = std::string::npos;
  (void)std::from_chars(length.data(), length.data() + length.size(), json_bytes);
  const std::string head = answer->body().substr(0, json_bytes);
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
  auto* path = command->add_option("--path", f->path,
                                   "of a function with protocol http, such as /predict?k=5");
  path->check(begins_with_slash);
  command->add_option("--method", f->method, "without: GET, or POST with a body")->needs(path);
  command->add_option("--batch", f->batch, "of what is made up")
      ->check(CLI::Range(1, 1024))
      ->excludes(path);
  command->add_flag("--print", f->values, "the values of the answer, too")->excludes(path);
  command->add_option("--token", f->token, "the function's");
  add_namespace(*command, session);
  command->callback([=, &session, &outcome] { outcome = invoke(session, *f); });
}

}  // namespace sluice::cli
