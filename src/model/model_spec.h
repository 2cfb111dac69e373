// What an inference function runs: a model's file with its tensors, or a program that serves; and
// its batches. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"

namespace sluice {

// The Open Inference Protocol's tensor: -1 is a variable dimension; the first one is the batch.
struct TensorSpec {
  std::string name;
  std::string datatype;  // "FP32", "INT64", …
  std::vector<int64_t> shape;
  // Of an input, as a usual request has it, for runs that no request asks for (warm-up,
  // inspection).
  std::vector<int64_t> sizes{};  // its shape; -1: the batch; empty: not stated
  std::vector<double> sample{};  // its values, repeated; empty: zeros

  bool operator==(const TensorSpec&) const = default;
};

// The value of a program's variable.
struct EnvValue {
  std::string text;
  std::string secret;  // in place of the text: a file's name in DATA/secrets, read at each start

  bool operator==(const EnvValue&) const = default;
};

// A program that serves HTTP by itself.
struct ProgramSpec {
  std::string image{};                  // of its Pods, on a cluster; empty: the platform's
  std::vector<std::string> command;     // its absolute path, then words; empty: there is none
  std::vector<std::string> args;        // more words
  std::map<std::string, EnvValue> env;  // its variables
  std::vector<std::string> files;       // copied, and its working folder
  std::vector<std::string> imports;     // Python's modules that instances have from a template
  std::vector<std::string> volumes;     // folders that its working folder has links to
  std::string folder;                   // that working folder, of a start; empty: "/"
  int port = 0;                         // where it listens on 127.0.0.1; 0: a free one
  std::string port_env = "PORT";        // the variable that names the port
  std::string readiness;  // answered 2xx once it is ready; empty: once it accepts connections
  Nanos start_timeout = Seconds(120);    // it is ready within, or its start has failed
  std::string drain_signal = "SIGTERM";  // asks it to finish and leave (drain_signal.h)
  std::string metrics;                   // the path of its page for Prometheus; empty: it has none
  // Any method and path, below /functions/NAME/. Else the Open Inference Protocol.
  bool http = false;

  bool operator==(const ProgramSpec&) const = default;
};

struct ModelSpec {
  std::string path;  // the model's file on this machine or its URL, or the program's
  std::string format = "torchscript";
  // The SHA-256 of file, inputs and outputs, or of a program, its words and the files that they
  // name; empty: not known.
  std::string content;
  std::vector<TensorSpec> inputs, outputs;
  int max_batch = 0;      // the most that its file takes at a time; 0: any number
  std::string sha256;     // of the file that a URL names
  ProgramSpec program{};  // of the format "program"

  bool operator==(const ModelSpec&) const = default;
};

// A file of a function's model for the devices of one type (SMIF's model repository). All variants
// of a function have the same inputs and outputs.
struct ModelVariant {
  std::string device_type;   // empty: for the types that no other variant names
  std::string quantization;  // as its user calls it: "int8"
  ModelSpec model;
  std::string fault;  // why it cannot be served; then the function uses no device of its type

  bool operator==(const ModelVariant&) const = default;
};

struct Batching {
  int max_size = 1;
  Nanos max_delay{0};  // the longest a request waits for others to join its batch

  bool operator==(const Batching&) const = default;
};

}  // namespace sluice
