// Model folders in Triton's layout, also such as another user leaves behind.
#include "control/local/model_folder.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/support/folder.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr char kConfig[] =
    "max_batch_size: 4\n"
    "input { name: \"x\" data_type: TYPE_FP32 dims: 3 }\n"
    "output { name: \"y\" data_type: TYPE_FP32 dims: 3 }\n";

class ModelFolder : public testing::Test {
 protected:
  ModelFolder() { write("config.pbtxt", kConfig); }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  std::string fault() {
    ModelSpec model{.path = folder_};
    const auto found = resolve_folder(model);
    EXPECT_FALSE(found.ok()) << model.path;
    return found.ok() ? "" : found.error().message;
  }

  TemporaryFolder own_;
  const fs::path folder_{own_.path};
};

TEST_F(ModelFolder, ItsNewestVersionIsTheModel) {
  for (const char* file : {"2/model.pt", "10/model.pt", "notes/model.pt", "010x/model.pt"})
    write(file, "");
  ModelSpec model{.path = folder_.string() + "/"};
  const auto found = resolve_folder(model);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(model.path, folder_ / "10/model.pt");
  EXPECT_EQ(model.max_batch, 4);
  EXPECT_EQ(model.inputs[0].shape, (std::vector<int64_t>{-1, 3}));
}

TEST_F(ModelFolder, AFileIsNone) {
  write("model.pt", "");
  ModelSpec model{.path = folder_ / "model.pt"};
  ASSERT_TRUE(resolve_folder(model).ok());
  EXPECT_EQ(model.path, folder_ / "model.pt");
}

TEST_F(ModelFolder, OneWithoutWhatIsWantedSaysWhat) {
  EXPECT_THAT(fault(), HasSubstr("has no version that is served, such as 1/model.pt"));
  write("1/other.pt", "");
  EXPECT_THAT(fault(), HasSubstr("1/model.pt"));
  write("config.pbtxt", "backend: \"python\"");
  EXPECT_THAT(fault(), HasSubstr("config.pbtxt: line 1: backend: \"python\" is not served"));
  fs::remove(folder_ / "config.pbtxt");
  EXPECT_THAT(fault(), HasSubstr("A model's folder has Triton's config.pbtxt"));
}

TEST_F(ModelFolder, ALinkOutOfItIsNotFollowed) {
  TemporaryFolder other;
  std::ofstream(fs::path(other.path) / "model.pt") << "";
  fs::create_directory(folder_ / "1");
  fs::create_symlink(fs::path(other.path) / "model.pt", folder_ / "1/model.pt");
  EXPECT_THAT(fault(), HasSubstr("model.pt"));
  fs::remove_all(folder_ / "1");
  fs::create_symlink(other.path, folder_ / "1");
  EXPECT_THAT(fault(), HasSubstr("1"));
}

}  // namespace
}  // namespace sluice::control
