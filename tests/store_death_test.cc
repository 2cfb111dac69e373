// The death matrix of a GPU's model store (docs/design/model-store.md): a client is killed or
// stopped at every labelled step of storing, sharing and releasing, and so is the store. Whatever
// the step,
//   - a tensor that others get is whole: a client that waits for a dead storer's tensor fills it
//     anew;
//   - a tensor without users is off the device; a tensor with users stays, even without the store;
//   - the store serves others meanwhile, and the next store serves new clients.
// Every label in the sources must have been reached.
#include <poll.h>

#include "tests/support/each_step.h"
#include "tests/support/store_on_gpu.h"

namespace sluice::node {
namespace {

constexpr Nanos kPatience = Seconds(60);

// Before the store is started.
struct PlanOfTheStore {
  PlanOfTheStore() { setenv(kStepsVariable, plan_.environment(Role::kStore).c_str(), 1); }
  ~PlanOfTheStore() { unsetenv(kStepsVariable); }
  Plan plan_;
};

// Stores, fills, shares and releases "w" as long as there is a store; then says 'e'.
void live(sluice_store* store, const StoreUser::Say& say) {
  sluice_tensor *w = nullptr, *again = nullptr;
  if (!enter_device()) return;
  while (sluice_store_tensor(store, "w", kBytes, -1, &w) == SLUICE_OK &&
         (w->fill == 0 || (write(w, 'a') && sluice_commit_tensor(store, w) == SLUICE_OK)) &&
         sluice_get_tensor(store, "w", -1, &again) == SLUICE_OK &&
         sluice_release_tensor(store, again) == SLUICE_OK &&
         sluice_release_tensor(store, w) == SLUICE_OK) {
  }
  say('e');
}

// Stores "kept" and keeps it. Says 'k'; once the store is gone, says what it holds.
void keep(sluice_store* store, const StoreUser::Say& say) {
  sluice_tensor* kept = nullptr;
  if (!enter_device() || sluice_store_tensor(store, "kept", kBytes, -1, &kept) != SLUICE_OK ||
      !write(kept, 'k') || sluice_commit_tensor(store, kept) != SLUICE_OK)
    return;
  say('k');
  pollfd end{StoreUser::kSocket, POLLIN, 0};
  poll(&end, 1, -1);
  say(read_back(kept));
}

class StoreDeath : protected PlanOfTheStore,
                   protected StoreOnGpu,
                   public testing::TestWithParam<const char*> {
 protected:
  StoreDeath() : StoreOnGpu(SLUICE_STORE_WITH_STEPS, GetParam()) {}

  // It stops at the label; then others connect, one of them for the tensor that it is busy with.
  void end_client_at(const std::string& label, int signal) {
    plan_.arm(Role::kClient, label, SIGSTOP);
    StoreUser victim(connect(), [](sluice_store* store, const auto& say) {
      Plan::play(Role::kClient);
      live(store, say);
    });
    ASSERT_TRUE(plan_.wait_for_hit(kPatience)) << "it did not come to this step";
    waitpid(plan_.hit(), nullptr, WUNTRACED);
    StoreUser keeper(connect(), keep);
    EXPECT_EQ(keeper.next_step(), 'k') << "nobody waits for who is stopped";
    StoreUser next(connect(), [](sluice_store* store, const auto& say) {
      say('w');
      store_w(store, 'b', say);
    });
    EXPECT_EQ(next.next_step(), 'w');
    kill(plan_.hit(), signal);
    const char step = next.next_step();
    EXPECT_TRUE(step == 'a' || step == 'c') << step;
    StoreUser getter(connect(), get_w);
    EXPECT_EQ(getter.next_step(), step == 'a' ? 'a' : 'b');
    victim.kill();
    EXPECT_TRUE(becomes(2));
    next.kill();
    getter.kill();
    EXPECT_TRUE(becomes(1));
    keeper.kill();
    EXPECT_TRUE(becomes(0));
  }

  void bring_store_to(const std::string& label, int signal) {
    plan_.arm(Role::kStore, label, signal);
    StoreUser guest(connect(), [](sluice_store*, const auto&) {});
    guest.kill();
    ASSERT_TRUE(plan_.wait_for_hit(kPatience)) << "it did not come to this step";
    ASSERT_EQ(plan_.hit(), store_);
    waitpid(store_, nullptr, WUNTRACED);
  }

  void kill_store_at(const std::string& label) {
    StoreUser keeper(connect(), keep);
    ASSERT_EQ(keeper.next_step(), 'k');
    StoreUser user(connect(), live);
    bring_store_to(label, SIGKILL);
    store_ = -1;
    EXPECT_EQ(user.next_step(), 'e');
    user.kill();
    // The emulated device keeps legacy memory for processes that have opened it; a real one need
    // not.
    EXPECT_EQ(keeper.next_step(), 'k');
    EXPECT_TRUE(becomes(1));
    start(4096 * kMib);
    StoreUser next(connect(), [](auto* store, const auto& say) { store_w(store, 'b', say); });
    EXPECT_EQ(next.next_step(), 'c');
    EXPECT_TRUE(becomes(2));
    next.kill();
    keeper.kill();
    EXPECT_TRUE(becomes(0));
  }

  void stop_store_at(const std::string& label) {
    StoreUser user(connect(), live);
    bring_store_to(label, SIGSTOP);
    kill(store_, SIGCONT);
    StoreUser next(connect(), [](auto* store, const auto& say) { store_w(store, 'b', say); });
    const char step = next.next_step();
    EXPECT_TRUE(step == 'a' || step == 'c') << step;
    user.kill();
    EXPECT_TRUE(becomes(1));
    next.kill();
    EXPECT_TRUE(becomes(0));
  }

  std::vector<std::string> client_labels() const {
    if (legacy()) return labels_in({"wire/model_store.cc"});
    return labels_in({"wire/model_store.cc", "wire/store_mapping_cuda.cc"});
  }
  std::vector<std::string> store_labels() const {
    if (legacy()) return labels_in({"store/process.cc", "store/server.cc"});
    return labels_in({"store/memory_cuda.cc", "store/process.cc", "store/server.cc"});
  }
};

TEST_P(StoreDeath, AClientKilledAtAnyStep) {
  at_each(plan_, client_labels(), [&](const std::string& label) { end_client_at(label, SIGKILL); });
}

TEST_P(StoreDeath, AClientStoppedAtAnyStep) {
  at_each(plan_, client_labels(), [&](const std::string& label) { end_client_at(label, SIGCONT); });
}

TEST_P(StoreDeath, AStoreKilledAtAnyStep) {
  at_each(plan_, store_labels(), [&](const std::string& label) { kill_store_at(label); });
}

TEST_P(StoreDeath, AStoreStoppedAtAnyStep) {
  at_each(plan_, store_labels(), [&](const std::string& label) { stop_store_at(label); });
}

INSTANTIATE_TEST_SUITE_P(Memory, StoreDeath, testing::Values("cuda:0", "cuda-legacy:0"),
                         [](const auto& info) {
                           return std::string(info.param).starts_with("cuda-legacy")
                                      ? "Legacy"
                                      : "Descriptors";
                         });

}  // namespace
}  // namespace sluice::node
