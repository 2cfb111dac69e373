// Forks of a Python template on emulated GPUs. The template has preloaded the hook and makes no
// call of the driver; each fork is held to its own slice, as the exec of its command would be.
#include <gmock/gmock.h>

#include "tests/support/eventually.h"
#include "tests/support/node_with_gpus.h"
#include "tests/support/program.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Ge;
using testing::Le;

constexpr Bytes kMib = Bytes{1} << 20;
constexpr Bytes kContext = 64 * kMib, kTaken = 64 * kMib, kLimit = 256 * kMib;
constexpr char kGpus[] = "devices=2 memory_mib=1024 context_mib=64";

// Its word is the emulated machine. It launches kernels of a millisecond for ever, and answers with
// what the driver said.
constexpr char kServer[] = R"(
import ctypes, http.server, json, os, sys, threading
os.environ["SLUICE_EMULATED_GPU"] = sys.argv[1]
cuda = ctypes.CDLL("libcuda.so.1")
context, device, devices, memory = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int(), ctypes.c_uint64()
module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
said = [cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(devices)),
        cuda.cuDeviceGet(ctypes.byref(device), 0), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)]
said += [cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(mib << 20)) for mib in (64, 512)]
class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        text = json.dumps({"said": said, "devices": devices.value, "parent": os.getppid()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
server = http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
cuda.cuModuleLoadData(ctypes.byref(module), b"kernel work ns=1000000\n")
cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"work")
while True:
    cuda.cuLaunchKernel(kernel, 132, 1, 1, 1, 1, 1, 0, None, None, None)
    cuda.cuCtxSynchronize()
)";

class GpuPython : public NodeWithGpus {
 protected:
  explicit GpuPython(const std::vector<std::string>& flags = {}) : NodeWithGpus(kGpus, flags) {
    for (const char* file : {"/gpu", "/gpu.memory"})
      fs::permissions(folder_ + file, fs::perms(0666));
    // A template has no variables of the function's, so the emulated driver is the interpreter's.
    const std::string driver = copy_in(*node_, SLUICE_EMULATED_DRIVER_FOLDER);
    std::ofstream(node_->data + "/python-emulated")
        << "#!/bin/sh\nLD_LIBRARY_PATH=$LD_LIBRARY_PATH:" << driver
        << " exec /usr/bin/python3 \"$@\"\n";
    fs::permissions(node_->data + "/python-emulated", fs::perms(0755));
    std::ofstream(node_->data + "/server.py") << kServer;
  }
  // Returns what it says of itself.
  json ready(const std::string& id, const std::string& on, bool forked = true) {
    json program = {
        {"command",
         {node_->data + "/python-emulated", node_->data + "/server.py", folder_ + "/gpu"}},
        {"port", 0}};
    if (forked) program["imports"] = {"ctypes", "http.server"};
    const json started = node_->call(verb::post, "/v1/instances",
                                     {{"id", id},
                                      {"function", "default/f"},
                                      {"device", on},
                                      {"slice", Node::slice(200, 0, kLimit)},
                                      {"program", program}});
    EXPECT_EQ(started["status"], 202) << started;
    const json instance = node_->wait(id, "ready");
    wire::HttpClient client(*wire::parse_endpoint(instance["socket"].get<std::string>()),
                            Seconds(100));
    const auto answer = client.json(verb::post, "/");
    return answer.ok() ? *answer : json{{"error", answer.error().message}};
  }
  json listed(const std::string& id) {
    const json state = node_->get("/v1/state");
    for (const json& i : state["instances"])
      if (i["id"] == id) return i;
    return nullptr;
  }
  bool has_opened_the_driver(pid_t pid) {
    const emulator::Machine::Lock state(*machine_);
    return std::ranges::any_of(state->processes,
                               [&](const emulator::Process& p) { return p.used && p.pid == pid; });
  }
};

TEST_F(GpuPython, AForkHasItsSlicesMemoryAndItsDeviceAlone) {
  constexpr int kOutOfMemory = 2;
  const json a = ready("a", "cuda0"), b = ready("b", "cuda1"), plain = ready("c", "cuda0", false);
  for (const json& self : {a, b, plain}) {
    EXPECT_EQ(self["said"], json({0, 0, 0, 0, 0, kOutOfMemory})) << node_->log();
    EXPECT_EQ(self["devices"], 1);
  }
  EXPECT_EQ(a["parent"], b["parent"]) << "what devices a fork sees is no matter of its template";
  for (const char* id : {"a", "b", "c"})
    EXPECT_THAT(listed(id)["memory_held"].get<Bytes>(), AllOf(Ge(kContext + kTaken), Le(kLimit)))
        << id;
  EXPECT_TRUE(has_opened_the_driver(listed("a")["pid"]));
  EXPECT_FALSE(has_opened_the_driver(a["parent"]));
}

TEST_F(GpuPython, AForkIsHeldToItsTimeAndCharged) {
  ready("a", "cuda0");
  ASSERT_TRUE(eventually("it to be charged", [&] { return listed("a")["used_ns"] > 0; }));
  const SteadyClock clock;
  const Time begin = clock.now();
  const Nanos before = busy(0);
  let_programs_work(Seconds(2));
  const double share = seconds(busy(0) - before) / seconds(clock.now() - begin);
  EXPECT_GT(share, 0);
  EXPECT_LE(share, 0.3);  // 20 %, and a kernel's time
}

class GpuPythonUnderMps : public GpuPython {
 protected:
  GpuPythonUnderMps() : GpuPython({"--mps", SLUICE_MPS_CONTROL}) {}
};

TEST_F(GpuPythonUnderMps, ForksOfSeveralFunctionsAreToldApart) {
  const auto serves = [&] {
    return device("cuda0").value("mps_status", "").starts_with("control");
  };
  ASSERT_TRUE(eventually("MPS to serve", serves));
  ready("a", "cuda0");
  ready("b", "cuda0");
  EXPECT_EQ(listed("a")["uid"], listed("b")["uid"]);
  for (const char* id : {"a", "b"})
    EXPECT_THAT(listed(id)["memory_held"].get<Bytes>(), AllOf(Ge(kContext + kTaken), Le(kLimit)))
        << id;
}

}  // namespace
}  // namespace sluice
