// Tensors of libtorch over the model store: processes that store the same tensors read one copy,
// and compute the same as before.
#include "runtime/stored_tensors.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>

#include "store/server.h"
#include "tests/support/eventually.h"
#include "tests/support/store_client.h"

namespace sluice {
namespace {

constexpr int64_t kNoWait = 0;

class StoredTensors : public testing::Test {
 protected:
  StoredTensors() { at::set_num_threads(1); }  // its children are forks
  sluice_store* connect() {
    node::SocketEnds pair = node::socket_pair();
    EXPECT_TRUE(server_.adopt(std::move(pair.ours), "templates").ok());
    sluice_store* store = nullptr;
    sluice_store_adopt(pair.theirs.release(), &store);
    stores_.push_back(store);
    return store;
  }
  ~StoredTensors() override {
    for (sluice_store* store : stores_) sluice_store_close(store);
  }

  node::StoreServer server_{node::host_memory(), {.capacity = 1 << 20}};
  std::vector<sluice_store*> stores_;
};

std::vector<at::Tensor> some_tensors() {
  at::manual_seed(7);
  const at::Tensor matrix = at::randn({30, 40});
  return {matrix,
          matrix.t(),                        // the same data, transposed
          at::arange(5, at::kLong),          // another type
          at::randn({8, 8}).slice(1, 0, 3),  // with gaps: stays
          at::scalar_tensor(3.5),
          at::empty({0})};
}

TEST_F(StoredTensors, OneFillsAllReadTheSameMemory) {
  const std::vector<at::Tensor> first = some_tensors(), second = some_tensors(),
                                plain = some_tensors();
  const void* const gaps = first[3].data_ptr();
  ASSERT_TRUE(runtime::share_tensors(connect(), "m", first, kNoWait).ok());
  ASSERT_TRUE(runtime::share_tensors(connect(), "m", second, kNoWait).ok());
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(at::equal(first[i], plain[i])) << i;
    EXPECT_TRUE(at::equal(second[i], plain[i])) << i;
    EXPECT_EQ(first[i].strides(), plain[i].strides()) << i;
    EXPECT_EQ(first[i].scalar_type(), plain[i].scalar_type()) << i;
  }
  EXPECT_EQ(first[0].data_ptr(), first[1].data_ptr()) << "what was one stays one";
  EXPECT_EQ(first[3].data_ptr(), gaps);
  EXPECT_EQ(server_.use().tensors, 1u);
  EXPECT_EQ(server_.use().bytes, 8192u) << "4800 + 40 + 4 bytes, each at 512, in pages";
  EXPECT_TRUE(at::allclose(at::mm(first[0], first[1]), at::mm(plain[0], plain[1])));
}

// A layer computes with parameters that lie in the store.
TEST_F(StoredTensors, AModuleKeepsItsAnswers) {
  torch::nn::Linear layer(16, 4);
  const at::Tensor input = at::randn({2, 16});
  const at::Tensor before = layer(input).detach();
  ASSERT_TRUE(runtime::share_tensors(connect(), "m", layer->parameters(), kNoWait).ok());
  EXPECT_TRUE(at::equal(layer(input).detach(), before));
}

TEST_F(StoredTensors, WithOtherValuesOrSizesEachKeepsItsOwn) {
  std::vector<at::Tensor> stored = some_tensors(), other = some_tensors(), larger = some_tensors();
  ASSERT_TRUE(runtime::share_tensors(connect(), "m", stored, kNoWait).ok());
  other[4].fill_(4);
  const void* const own = other[0].data_ptr();
  EXPECT_EQ(runtime::share_tensors(connect(), "m", other, kNoWait).error().kind,
            ErrorKind::kConflict);
  EXPECT_EQ(other[0].data_ptr(), own);
  larger.push_back(at::zeros({4096}));
  EXPECT_EQ(runtime::share_tensors(connect(), "m", larger, kNoWait).error().kind,
            ErrorKind::kConflict);
  EXPECT_EQ(runtime::share_tensors(connect(), "n", {at::zeros({1 << 20})}, kNoWait).error().kind,
            ErrorKind::kInvalid);
}

TEST_F(StoredTensors, TheyAreFreeWithTheLastProcess) {
  const auto share = [](sluice_store* store, const auto& say) {
    const std::vector<at::Tensor> mine = some_tensors();
    if (runtime::share_tensors(store, "m", mine, -1).ok()) say('s');
    pause();
  };
  const auto user = [&] {
    node::SocketEnds pair = node::socket_pair();
    EXPECT_TRUE(server_.adopt(std::move(pair.ours), "templates").ok());
    return std::make_unique<node::StoreUser>(std::move(pair.theirs), share);
  };
  auto a = user(), b = user();
  EXPECT_EQ(a->next_step(), 's');
  EXPECT_EQ(b->next_step(), 's');
  a.reset();
  EXPECT_EQ(server_.use().tensors, 1u);
  b.reset();
  EXPECT_TRUE(eventually("the store to be empty", [&] { return server_.use().tensors == 0; }));
}

}  // namespace
}  // namespace sluice
