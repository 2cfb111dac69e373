#include "runtime/instance.h"

#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "runtime/confinement.h"
#include "runtime/process_title.h"
#include "runtime/serving.h"

namespace sluice::runtime {
namespace {

namespace asio = boost::asio;

// Takes the daemon's messages while the instance serves. A lost daemon changes nothing.
class ControlWatch {
 public:
  ControlWatch(Serving& serving, Fd control)
      : serving_(serving), control_(serving.io(), control.release()) {
    control_.native_non_blocking(true);  // Asio may report it ready with nothing there
    wait();
  }

 private:
  void wait() {
    control_.async_wait(asio::posix::stream_descriptor::wait_read, [this](auto fault) {
      if (!fault && handle()) wait();
    });
  }

  // Returns false once the peer is gone.
  bool handle() {
    const auto packet = wire::receive_packet(control_.native_handle());
    if (!packet.ok())
      return packet.error().kind == ErrorKind::kInvalid ||
             packet.error().kind == ErrorKind::kTimeout;
    const auto kind = wire::kind_of(*packet);
    if (!kind.ok()) return true;
    if (*kind == wire::ZygoteKind::kDrain) serving_.drain();
    if (*kind == wire::ZygoteKind::kResize)
      if (const auto resize = wire::message_of<wire::Resize>(*packet); resize.ok())
        serving_.set_threads(static_cast<int>(std::max(1u, resize->threads)));
    return true;
  }

  Serving& serving_;
  asio::posix::stream_descriptor control_;
};

Result<void> serve(const wire::StartInstance& start, InstanceFds& fds, const ModelFile& file,
                   Model& model) {
  SLUICE_TRY(confine(0));  // as its template is, and apart from its siblings
  model.after_fork();
  SLUICE_ASSIGN(packet, wire::receive_packet(fds.control.get()));
  SLUICE_ASSIGN(go, wire::message_of<wire::Go>(packet));
  const SteadyClock clock;
  const Time begin = clock.now();
  Gate gate(go.permit_socket);
  if (!packet.fds.empty()) SLUICE_TRY(gate.adopt(packet.fds));

  ServedModel served{.name = start.model_name,
                     .version = std::to_string(start.model_version),
                     .file = file,
                     .batching = {static_cast<int>(std::max(start.batch, start.max_batch)),
                                  Nanos(static_cast<int64_t>(start.max_delay_ns))},
                     .batch = static_cast<int>(std::max(1u, start.batch))};
  Serving serving(model, gate, std::move(served), std::move(fds.listening),
                  static_cast<int>(std::max(1u, go.threads)));
  wire::Ready ready;
  ready.load_ns = static_cast<uint64_t>((clock.now() - begin).count());
  (void)wire::send_message(fds.control.get(), ready);
  const ControlWatch watch(serving, std::move(fds.control));
  serving.run();
  return {};
}

}  // namespace

int run_instance(const wire::StartInstance& start, InstanceFds fds, const ModelFile& file,
                 Model& model, const std::string& refused) {
  set_process_title("sluice-instance", std::string("sluice-runtime: instance ") + start.id);
  ::dup2(fds.log.get(), STDOUT_FILENO);
  ::dup2(fds.log.get(), STDERR_FILENO);
  fds.log.reset();
  if (!refused.empty())
    std::fprintf(stderr, "warning: not warmed up, so first requests take longer: %s\n",
                 refused.c_str());
  const auto outcome = serve(start, fds, file, model);
  if (outcome.ok()) return 0;
  std::fprintf(stderr, "instance %s: %s\n", start.id, outcome.error().message.c_str());
  if (fds.control.valid())
    (void)wire::send_message(fds.control.get(), wire::failed(outcome.error()));
  return 1;
}

}  // namespace sluice::runtime
