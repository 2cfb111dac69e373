#include "model/function_fields.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace sluice {
namespace {

const FunctionSpec kInferenceFunction;
const FunctionSpec kTrainingFunction{.kind = TrainingSpec{}};

const FunctionField& field(const FunctionSpec& spec, std::string_view name) {
  for (const FunctionField* f : fields_of(spec))
    if (f->name == name) return *f;
  throw std::runtime_error("no field " + std::string(name));
}

TEST(FunctionFields, EachHasANameOfItsOwnAndADefaultWithinItsBoundsOrUnset) {
  for (const FunctionSpec* spec : {&kInferenceFunction, &kTrainingFunction}) {
    std::set<std::string_view> names, stored;
    for (const FunctionField* f : fields_of(*spec)) {
      EXPECT_TRUE(names.insert(f->name).second) << f->name;
      EXPECT_TRUE(f->stored.empty() || stored.insert(f->stored).second) << f->stored;
      EXPECT_FALSE(f->meaning.empty()) << f->name;
      EXPECT_TRUE(is_default(*f, *spec)) << f->name;
      const FunctionField::Slot slot = slot_of(*f, *spec);
      if (std::holds_alternative<int*>(slot) && f->unset.empty()) {
        EXPECT_GE(*std::get<int*>(slot), f->least) << f->name;
        EXPECT_LE(*std::get<int*>(slot), f->most) << f->name;
      }
      const bool has_unit = f->stored_in > Nanos(0);
      EXPECT_EQ(has_unit, std::holds_alternative<Nanos*>(slot) && !f->stored.empty()) << f->name;
    }
  }
}

TEST(FunctionFields, ValuesAndBoundsAreWordsForPeople) {
  FunctionSpec f;
  EXPECT_EQ(value_text(field(f, "slo.latency"), f), "none");
  f.inference().slo.latency = Millis(80);
  EXPECT_EQ(value_text(field(f, "slo.latency"), f), "80ms");
  EXPECT_EQ(value_text(field(f, "slo.percentile"), f), "95");
  EXPECT_EQ(value_text(field(f, "admission"), f), "in-time");
  EXPECT_EQ(value_text(field(f, "maxReplicas"), f), "no bound");
  f.inference().token = "secret";
  EXPECT_EQ(value_text(field(f, "token"), f), "set");
  EXPECT_EQ(allowed_text(field(f, "slo.latency"), f), "100us to 1h");
  EXPECT_EQ(allowed_text(field(f, "timeout"), f), "1ms to 24h");
  EXPECT_EQ(allowed_text(field(f, "batcher.maxBatchSize"), f), "1 to 256");
  EXPECT_EQ(allowed_text(field(f, "admission"), f), "in-time or all");
}

// docs/function-file.md has these lines.
std::string table_of(std::span<const FunctionField> fields, const FunctionSpec& spec) {
  std::string out;
  for (const FunctionField& f : fields)
    out += "| `" + std::string(f.name) + "` | " + std::string(f.meaning) + " | " +
           allowed_text(f, spec) + " | " +
           (f.wanted.empty() || !section_of(f).empty() ? value_text(f, spec) : "must stand") +
           " |\n";
  return out;
}

std::string document() {
  std::ifstream file(SLUICE_SOURCE "/docs/function-file.md");
  return (std::ostringstream() << file.rdbuf()).str();
}

TEST(FunctionFields, AreInTheDocumentAsTheyAre) {
  const std::string text = document();
  for (const auto& [fields, spec] : {std::pair(inference_fields(), kInferenceFunction),
                                     {shared_fields(), kInferenceFunction},
                                     {training_fields(), kTrainingFunction}}) {
    const std::string table = table_of(fields, spec);
    EXPECT_NE(text.find(table), text.npos) << "docs/function-file.md lacks\n" << table;
  }
}

TEST(FunctionFields, ThoseBesideTheTableAreInTheDocumentAsTheyAre) {
  const std::string text = document();
  for (const auto& fields : {other_fields(), other_training_fields()})
    for (const OtherField& f : fields) {
      const std::string row = "| `" + std::string(f.name) + "` | " + std::string(f.meaning) +
                              " | " + std::string(f.allowed) + " | " + std::string(f.unset) +
                              " |\n";
      EXPECT_NE(text.find(row), text.npos) << "docs/function-file.md lacks\n" << row;
    }
}

TEST(FunctionFields, AMeaningWithoutMarkdownHasTheWordsOfItsLinks) {
  EXPECT_EQ(plain_meaning("a [bundle](policies.md), by `name` ([below](#x)). Lists [1, 2] stay"),
            "a bundle, by name. Lists [1, 2] stay");
  EXPECT_EQ(plain_meaning("its own (else 70 %) [open"), "its own (else 70 %) [open");
}

}  // namespace
}  // namespace sluice
