#include <gtest/gtest.h>

#include <filesystem>

#include "cli/decisions.h"
#include "tests/support/http.h"

namespace sluice::cli {
namespace {

// The API cannot list decisions by namespace, so all are requested and filtered.
TEST(Events, FollowingANamespaceAsksForFewDecisionsAgainAndAgain) {
  std::vector<std::string> asked;
  const TemporaryFolder data;
  std::filesystem::create_directory(data.path + "/run");
  {
    const wire::Serving api(
        [&](wire::HttpRequest request) -> wire::asio::awaitable<wire::HttpResponse> {
          asked.emplace_back(request.target());
          if (asked.size() == 3) co_return wire::error_response(500, "the end of this test");
          co_return wire::json_response(nlohmann::json::array());
        });
    std::filesystem::create_symlink(api.endpoint.path, data.path + "/run/api.sock");
    const Session session{.data = data.path, .space = "vision"};
    EXPECT_FALSE(stream_decisions(session, "", 30, true).ok());
  }  // the server's thread has ended
  EXPECT_EQ(asked, (std::vector<std::string>{
                       "/v1/decisions?limit=10000&function=", "/v1/decisions?limit=1000&function=",
                       "/v1/decisions?limit=1000&function="}));
}

}  // namespace
}  // namespace sluice::cli
