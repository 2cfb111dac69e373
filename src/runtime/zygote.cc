#include "runtime/zygote.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/children.h"
#include "runtime/confinement.h"
#include "runtime/engine.h"
#include "runtime/instance.h"
#include "runtime/process_title.h"

namespace sluice::runtime {
namespace {

struct WarmModel {
  ModelFile file;
  std::unique_ptr<Model> model;
  std::string refused;  // why it was not warmed up; empty: it was
};

constexpr uint64_t kCpuSeconds = 600;  // for a template whose daemon, which waits for it, has died

// The file is opened before the privileges to do so go, and read after that.
Result<WarmModel> load_warm(const wire::StartTemplate& start, sluice_store* store) {
  SLUICE_ASSIGN(file, read_model_file(start.model_path));
  SLUICE_TRY(confine(start.uid));
  limit(memory_to_load(file.opened->size()), kCpuSeconds);
  SLUICE_ASSIGN(model, load_model(file));
  if (store != nullptr)
    if (const auto shared = model->share_weights(store, "weights"); !shared.ok())
      log::warn("{}: weights are not shared with other templates: {}", start.model_path,
                shared.error().message);
  const int batch = static_cast<int>(std::max(1u, start.warm_batch));
  SLUICE_ASSIGN(refused, warm_up(*model, file.spec, batch));
  lift_limits();  // an instance has its own
  file.opened.reset();
  return WarmModel{std::move(file), std::move(model), std::move(refused)};
}

// The zygote's log is not for what a model prints.
void discard_output() {
  const Fd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  ::dup2(null.get(), STDOUT_FILENO);
}

// `weights`: its connection to the model store, if it has one. Instances keep it open, and so keep
// the weights that they read in the store's books.
int run_template(const wire::StartTemplate& start, Fd control, Fd weights) {
  set_process_title("sluice-template",
                    std::string("sluice-runtime: template of ") + start.model_path);
  discard_output();
  const SteadyClock clock;
  const Time begin = clock.now();
  const int weights_fd = weights.get();
  sluice_store* store = nullptr;
  if (weights.valid()) sluice_store_adopt(weights.release(), &store);
  auto warm = load_warm(start, store);
  if (!warm.ok()) {
    (void)wire::send_message(control.get(), wire::failed(warm.error()));
    return 1;
  }
  wire::Ready ready;
  ready.load_ns = static_cast<uint64_t>((clock.now() - begin).count());
  (void)wire::send_message(control.get(), ready);
  if (!warm->refused.empty())
    log::warn("{}: not warmed up, so first requests take longer: {}", start.model_path,
              warm->refused);

  Children children;
  children.serve(control.get(), [&](wire::Packet packet) {
    const auto message = wire::message_of<wire::StartInstance>(packet, 3);
    if (!message.ok()) {
      (void)wire::send_message(control.get(), wire::failed(message.error()));
      return;
    }
    InstanceFds fds{std::move(packet.fds[0]), std::move(packet.fds[1]), std::move(packet.fds[2])};
    std::vector<int> keep{fds.listening.get(), fds.control.get(), fds.log.get()};
    if (store != nullptr) keep.push_back(weights_fd);
    children.start(control.get(), std::move(keep), [&] {
      return run_instance(*message, std::move(fds), warm->file, *warm->model, warm->refused);
    });
  });
  return 0;
}

}  // namespace

int run_zygote(Fd control) {
  ::prctl(PR_SET_NAME, "sluice-zygote");
  Children children;
  children.serve(control.get(), [&](wire::Packet packet) {
    const auto message = wire::message_of<wire::StartTemplate>(packet, 1);
    if (!message.ok()) {
      (void)wire::send_message(control.get(), wire::failed(message.error()));
      return;
    }
    Fd own = std::move(packet.fds[0]);
    Fd weights = packet.fds.size() > 1 ? std::move(packet.fds[1]) : Fd();
    std::vector<int> keep{own.get()};
    if (weights.valid()) keep.push_back(weights.get());
    children.start(control.get(), std::move(keep),
                   [&] { return run_template(*message, std::move(own), std::move(weights)); });
  });
  return 0;
}

}  // namespace sluice::runtime
