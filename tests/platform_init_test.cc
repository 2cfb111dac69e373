// What the real runtime tells of a model: to `sluice init`, which makes files that `sluice apply`
// accepts, and to `sluice apply`, which estimates its times.
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/archive.h"
#include "tests/support/platform.h"

namespace sluice {
namespace {

using testing::HasSubstr;

class Init : public testing::Test {
 protected:
  Init() { std::filesystem::copy(SLUICE_MODELS "/simple.pt", model); }
  Ended init(std::vector<std::string> more) const {
    std::vector<std::string> words{"init", model};
    words.insert(words.end(), more.begin(), more.end());
    return p.cli(words);
  }
  json sidecar() const { return json::parse(std::ifstream(p.data + "/My_Model.json")); }
  Ended dry_run() const { return p.cli({"apply", "--dry-run", "-f", p.data + "/My_Model.yaml"}); }

  const Platform p;
  const std::string model = p.data + "/My_Model.pt";
};

TEST_F(Init, WithItsInputsAModelIsRunToFindItsOutputs) {
  const Ended made = init({"--input", "a:INT32:-1,16", "--input", "b:INT32:-1,16"});
  EXPECT_EQ(made.code, 0) << made.err;
  const json pair = [](const char* one, const char* two) {
    const auto tensor = [](const char* name) {
      return json{{"name", name}, {"datatype", "INT32"}, {"shape", {-1, 16}}};
    };
    return json::array({tensor(one), tensor(two)});
  }("a", "b");
  EXPECT_EQ(sidecar()["inputs"], pair);
  EXPECT_EQ(sidecar()["outputs"][1],
            (json{{"name", "output1"}, {"datatype", "INT32"}, {"shape", {-1, 16}}}));
  EXPECT_EQ(dry_run().out, "default/my-model revision 1 created (dry run)\n");

  const Ended again = init({});
  EXPECT_NE(again.code, 0);
  EXPECT_THAT(again.err, HasSubstr("My_Model.json: is there; init overwrites nothing"));
  EXPECT_EQ(sidecar()["inputs"], pair);
}

TEST_F(Init, AFunctionHasTheNameThatWasGiven) {
  const Ended refused = init({"--name", "my model"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--name: \"my model\" is no name: letters, digits and - _ ."));
  EXPECT_FALSE(std::filesystem::exists(p.data + "/My_Model.yaml"));
  const Ended made =
      init({"--input", "a:INT32:-1,16", "--input", "b:INT32:-1,16", "--name", "R_5.v2"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(dry_run().out, "default/R_5.v2 revision 1 created (dry run)\n");
}

TEST_F(Init, WhatItCannotKnowIsMarkedAndApplyNamesIt) {
  EXPECT_EQ(init({}).code, 0);
  EXPECT_EQ(sidecar()["inputs"].size(), 2u);
  EXPECT_EQ(sidecar()["outputs"].size(), 2u);
  const Ended refused = dry_run();
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("inputs[0].datatype: \"FILL-IN\" is not known; allowed are"));
  EXPECT_THAT(refused.err, HasSubstr("outputs[1].shape: must be a list of whole numbers"));
  // The next step that it names works.
  EXPECT_EQ(init({"--input", "a:INT32:-1,16", "--input", "b:INT32:-1,16"}).code, 0);
  EXPECT_EQ(dry_run().out, "default/my-model revision 1 created (dry run)\n");
}

TEST_F(Init, WhatIsWrongIsNamedAndNothingIsWritten) {
  EXPECT_THAT(init({"--input", "a"}).err, HasSubstr("\"a\" is not NAME:DATATYPE:DIMS"));
  EXPECT_THAT(init({"--input", "a:FLOAT:-1"}).err,
              HasSubstr("datatype: \"FLOAT\" is not known; allowed are BOOL"));
  EXPECT_THAT(init({"--input", "a:INT32:-1,16"}).err,
              HasSubstr("--input: stands 1 times; the model's forward() takes 2: "));
  std::ofstream(model) << control::archive_of("no model");
  EXPECT_EQ(init({}).code, 2);
  EXPECT_FALSE(std::filesystem::exists(p.data + "/My_Model.json"));
  EXPECT_FALSE(std::filesystem::exists(p.data + "/My_Model.yaml"));
}

// --- `sluice apply` of a model that was never measured -------------------------------------------

class Estimates : public testing::Test {
 protected:
  Ended apply(const std::string& model, std::vector<std::string> more = {}) const {
    const std::string file = p.data + "/f.yaml";
    std::ofstream(file) << "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\n"
                        << "metadata: {name: f}\nspec:\n  model: {path: " << model << "}\n"
                        << "  minReplicas: 0\n  batcher: {maxBatchSize: 4}\n";
    std::vector<std::string> words{"apply", "-f", file};
    words.insert(words.end(), more.begin(), more.end());
    return p.cli(words);
  }
  const Platform p;
};

TEST_F(Estimates, AreMadeAtApplyAndAMeasurementReplacesThem) {
  const std::string model = SLUICE_MODELS "/mobilenet_v2.pt";
  EXPECT_EQ(apply(model, {"--no-estimate"}).code, 0);
  EXPECT_EQ(p.get("/v1/profiles"), json::array());

  const Ended applied = apply(model);
  EXPECT_EQ(applied.code, 0) << applied.err;
  EXPECT_THAT(applied.out, HasSubstr("default/f: estimated on cpu/"));
  json profiles = p.get("/v1/profiles");
  ASSERT_EQ(profiles.size(), 1u);
  json profile = profiles[0];
  EXPECT_GT(profile["estimated"], 0.05);
  std::set<int> batches;
  for (const json& point : profile["points"]) batches.insert(point["batch"].get<int>());
  EXPECT_THAT(batches, testing::ElementsAre(1, 2, 4));
  EXPECT_GT(profile["points"][0]["latency_p50_us"], 1000) << "0.3 GMACs";
  EXPECT_THAT(apply(model).out, testing::Not(HasSubstr("estimated"))) << "it is known";

  profile["estimated"] = 0;
  profile["points"][0]["latency_p50_us"] = 12345;
  p.api(verb::put, "/v1/profiles", profile);
  profile["estimated"] = 0.5;
  profile["points"][0]["latency_p50_us"] = 99999;
  p.api(verb::put, "/v1/profiles", profile);
  EXPECT_EQ(p.get("/v1/profiles")[0]["points"][0]["latency_p50_us"], 12345);
}

TEST_F(Estimates, AModelThatCannotBeReadIsAppliedWithout) {
  const std::string model = p.data + "/odd.pt";
  std::ofstream(model) << control::archive_of("no model");
  std::filesystem::copy(SLUICE_MODELS "/mlp.json", p.data + "/odd.json");
  const Ended applied = apply(model);
  EXPECT_EQ(applied.code, 0) << applied.err;
  EXPECT_THAT(applied.err, HasSubstr("default/f: its times cannot be estimated: "));
}

}  // namespace
}  // namespace sluice
