// A fork of a Python template on an emulated GPU: its template has preloaded the hook without a
// call of the driver, and the fork is held to its own slice.
#include "tests/support/node_with_gpus.h"
#include "tests/support/program.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kMib = Bytes{1} << 20;

// Its word is the emulated machine. It answers with what the driver said.
constexpr char kServer[] = R"(
import ctypes, http.server, json, os, sys
os.environ["SLUICE_EMULATED_GPU"] = sys.argv[1]
cuda = ctypes.CDLL("libcuda.so.1")
context, device, devices, memory = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int(), ctypes.c_uint64()
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
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Server).serve_forever()
)";

class GpuPython : public NodeWithGpus {
 protected:
  GpuPython() {
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
  json ready(const std::string& id, const std::string& on) {
    const json started = node_->call(
        verb::post, "/v1/instances",
        {{"id", id},
         {"function", "default/f"},
         {"device", on},
         {"slice", Node::slice(200, 0, 256 * kMib)},
         {"program",
          {{"command",
            {node_->data + "/python-emulated", node_->data + "/server.py", folder_ + "/gpu"}},
           {"imports", {"ctypes"}},
           {"port", 0}}}});
    EXPECT_EQ(started["status"], 202) << started;
    const json instance = node_->wait(id, "ready");
    wire::HttpClient client(*wire::parse_endpoint(instance["socket"].get<std::string>()),
                            Seconds(100));
    const auto answer = client.json(verb::post, "/");
    return answer.ok() ? *answer : json{{"error", answer.error().message}};
  }
  Bytes held(const std::string& id) {
    return node_->get("/v1/instances/" + id).value("memory_held", Bytes{0});
  }
};

TEST_F(GpuPython, AForkHasItsSlicesMemoryAndItsDeviceAlone) {
  constexpr int kOutOfMemory = 2;
  const json a = ready("a", "cuda0"), b = ready("b", "cuda1");
  for (const json& self : {a, b}) {
    EXPECT_EQ(self["said"], json({0, 0, 0, 0, 0, kOutOfMemory})) << node_->log();
    EXPECT_EQ(self["devices"], 1);
  }
  EXPECT_EQ(a["parent"], b["parent"]) << "what devices a fork sees is no matter of its template";
  for (const char* id : {"a", "b"}) {
    EXPECT_GE(held(id), 64 * kMib);
    EXPECT_LE(held(id), 256 * kMib);
  }
}

}  // namespace
}  // namespace sluice
