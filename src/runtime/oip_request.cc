#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <variant>

#include "runtime/oip.h"
#include "runtime/oip_json.h"

namespace sluice::runtime {
namespace {

using simdjson::dom::element;
// Only parameters that frame tensors are read; monostate: an object or an array.
using Parameter = std::variant<bool, int64_t, double, std::string, std::monostate>;
using Parameters = std::map<std::string, Parameter>;

constexpr size_t kMaxDepth = 64;  // tensors have a handful of dimensions
constexpr size_t kMaxTensors = 1024;

// Parameters for mechanisms that we lack: ignoring them would give wrong answers.
constexpr std::string_view kUnsupported[] = {"shared_memory_region", "classification"};

Error invalid(std::string why) {
  return {ErrorKind::kInvalid, std::move(why)};
}

// Returns nothing also for a null member: some clients write all members they know.
std::optional<element> find(simdjson::dom::object object, std::string_view key) {
  element e;
  if (object[key].get(e) != simdjson::SUCCESS || e.is_null()) return std::nullopt;
  return e;
}

Error bad_parameter(const std::string& place, const std::string& name, const std::string& why) {
  return invalid(place + "parameters: '" + name + "' " + why);
}

Result<Parameters> read_parameters(simdjson::dom::object object, const std::string& place) {
  Parameters parameters;
  const std::optional<element> given = find(object, "parameters");
  if (!given) return parameters;
  simdjson::dom::object fields;
  if (given->get(fields) != simdjson::SUCCESS)
    return invalid(place + "parameters: must be an object");
  for (const auto& [key, value] : fields) {
    const std::string name(key);
    if (bool b; value.get(b) == simdjson::SUCCESS)
      parameters[name] = b;
    else if (int64_t i; value.get(i) == simdjson::SUCCESS)
      parameters[name] = i;
    else if (double d; value.get(d) == simdjson::SUCCESS)
      parameters[name] = d;
    else if (std::string_view s; value.get(s) == simdjson::SUCCESS)
      parameters[name] = std::string(s);
    else if (!value.is_null())
      parameters[name] = std::monostate();
    if (!value.is_null() && std::ranges::find(kUnsupported, key) != std::end(kUnsupported))
      return bad_parameter(place, name, "is not supported");
  }
  return parameters;
}

Result<bool> boolean(const Parameters& parameters, const std::string& name, bool otherwise) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return otherwise;
  if (const bool* b = std::get_if<bool>(&found->second)) return *b;
  return invalid("parameter '" + name + "' must be true or false");
}

Result<std::string> required_text(simdjson::dom::object object, std::string_view key,
                                  const std::string& place) {
  std::string_view text;
  const std::optional<element> e = find(object, key);
  if (!e || e->get(text) != simdjson::SUCCESS)
    return invalid(place + std::string(key) + ": must be given, as a string");
  return std::string(text);
}

Result<Shape> read_shape(simdjson::dom::object object, const std::string& place) {
  const std::optional<element> e = find(object, "shape");
  simdjson::dom::array dimensions;
  if (!e || e->get(dimensions) != simdjson::SUCCESS)
    return invalid(place + "shape: must be given, as an array of integers");
  Shape shape;
  for (const element d : dimensions) {
    int64_t size;
    if (d.get(size) != simdjson::SUCCESS || shape.size() == kMaxDepth)
      return invalid(place + "shape: must be an array of at most " + std::to_string(kMaxDepth) +
                     " integers");
    shape.push_back(size);
  }
  return shape;
}

// Takes the next tensor from the binary part that follows the JSON.
Result<void> take_binary(const Parameter& size, Tensor& tensor, std::string_view& binary,
                         const std::string& place) {
  const int64_t* bytes = std::get_if<int64_t>(&size);
  if (bytes == nullptr || *bytes < 0)
    return invalid(place + "parameters: binary_data_size must be an integer of at least 0");
  if (static_cast<uint64_t>(*bytes) > binary.size())
    return invalid(place + "binary_data_size is " + std::to_string(*bytes) + ", only " +
                   std::to_string(binary.size()) + " bytes of the body are left");
  tensor.data = binary.substr(0, static_cast<size_t>(*bytes));
  binary.remove_prefix(static_cast<size_t>(*bytes));
  return {};
}

Result<Tensor> read_input(simdjson::dom::object object, const std::string& place,
                          std::string_view& binary) {
  SLUICE_ASSIGN(name, required_text(object, "name", place));
  SLUICE_ASSIGN(type_name, required_text(object, "datatype", place));
  const std::optional<Datatype> datatype = datatype_from(type_name);
  if (!datatype) return invalid(place + "datatype: there is no '" + type_name + "'");
  Tensor tensor{.name = name, .datatype = *datatype};
  SLUICE_ASSIGN(shape, read_shape(object, place));
  tensor.shape = std::move(shape);
  if (const auto count = element_count(tensor.shape); !count.ok())
    return within(place + "'" + name + "'", count.error());

  SLUICE_ASSIGN(parameters, read_parameters(object, place));
  const auto size = parameters.find("binary_data_size");
  const std::optional<element> data = find(object, "data");
  if ((size != parameters.end()) == data.has_value())
    return invalid(place + "'" + name +
                   "': give either data or the parameter binary_data_size, not both");
  if (data) {
    SLUICE_TRY(read_json_data(*data, tensor));
  } else {
    SLUICE_TRY(take_binary(size->second, tensor, binary, place));
    SLUICE_TRY(check_data(tensor));
  }
  return tensor;
}

Result<std::vector<Tensor>> read_inputs(simdjson::dom::object root, std::string_view binary) {
  const std::optional<element> given = find(root, "inputs");
  simdjson::dom::array list;
  if (!given || given->get(list) != simdjson::SUCCESS)
    return invalid("inputs: must be given, as an array");
  std::vector<Tensor> inputs;
  for (const element e : list) {
    const std::string place = "inputs[" + std::to_string(inputs.size()) + "]: ";
    simdjson::dom::object object;
    if (e.get(object) != simdjson::SUCCESS) return invalid(place + "must be an object");
    if (inputs.size() == kMaxTensors) return invalid("inputs: too many");
    SLUICE_ASSIGN(tensor, read_input(object, place, binary));
    inputs.push_back(std::move(tensor));
  }
  if (!binary.empty())
    return invalid(std::to_string(binary.size()) + " bytes of the body belong to no input");
  return inputs;
}

Result<std::vector<RequestedOutput>> read_outputs(simdjson::dom::object root, bool binary) {
  std::vector<RequestedOutput> outputs;
  const std::optional<element> given = find(root, "outputs");
  if (!given) return outputs;
  simdjson::dom::array list;
  if (given->get(list) != simdjson::SUCCESS) return invalid("outputs: must be an array");
  for (const element e : list) {
    const std::string place = "outputs[" + std::to_string(outputs.size()) + "]: ";
    simdjson::dom::object object;
    if (e.get(object) != simdjson::SUCCESS) return invalid(place + "must be an object");
    if (outputs.size() == kMaxTensors) return invalid("outputs: too many");
    SLUICE_ASSIGN(name, required_text(object, "name", place));
    SLUICE_ASSIGN(parameters, read_parameters(object, place));
    SLUICE_ASSIGN(wants_binary, boolean(parameters, "binary_data", binary));
    outputs.push_back({name, wants_binary});
  }
  return outputs;
}

bool shape_fits(const Shape& shape, const std::vector<int64_t>& spec) {
  return std::ranges::equal(shape, spec, [](int64_t d, int64_t s) { return s < 0 || d == s; });
}

std::string names_of(const std::vector<TensorSpec>& specs) {
  std::string names;
  for (const TensorSpec& s : specs) names += (names.empty() ? "'" : ", '") + s.name + "'";
  return names;
}

Result<void> fit_input(const Tensor& t, const TensorSpec& spec) {
  if (to_string(t.datatype) != spec.datatype)
    return invalid("input '" + t.name + "': datatype " + std::string(to_string(t.datatype)) +
                   ", the model takes " + spec.datatype);
  if (!shape_fits(t.shape, spec.shape))
    return invalid("input '" + t.name + "': shape " + to_string(t.shape) + ", the model takes " +
                   to_string(spec.shape));
  return {};
}

// Brings the inputs into the model's order; each must be there once, and no others.
Result<void> fit_inputs(std::vector<Tensor>& inputs, const ModelSpec& model) {
  std::vector<Tensor> ordered;
  std::set<std::string_view> seen;
  for (const Tensor& t : inputs) {
    if (std::ranges::find(model.inputs, t.name, &TensorSpec::name) == model.inputs.end())
      return invalid("input '" + t.name + "': the model has " + names_of(model.inputs));
    if (!seen.insert(t.name).second) return invalid("input '" + t.name + "' is given twice");
  }
  for (const TensorSpec& spec : model.inputs) {
    const auto found = std::ranges::find(inputs, spec.name, &Tensor::name);
    if (found == inputs.end()) return invalid("input '" + spec.name + "' is missing");
    SLUICE_TRY(fit_input(*found, spec));
  }
  seen.clear();
  for (const TensorSpec& spec : model.inputs)
    ordered.push_back(std::move(*std::ranges::find(inputs, spec.name, &Tensor::name)));
  inputs = std::move(ordered);
  return {};
}

Result<void> fit_outputs(std::vector<RequestedOutput>& outputs, const ModelSpec& model,
                         bool binary) {
  std::set<std::string_view> seen;
  for (const RequestedOutput& o : outputs) {
    if (std::ranges::find(model.outputs, o.name, &TensorSpec::name) == model.outputs.end())
      return invalid("output '" + o.name + "': the model has " + names_of(model.outputs));
    if (!seen.insert(o.name).second) return invalid("output '" + o.name + "' is asked for twice");
  }
  if (outputs.empty())
    for (const TensorSpec& spec : model.outputs) outputs.push_back({spec.name, binary});
  return {};
}

// The body is the data of the model's only input; its size settles the open dimension.
Result<InferRequest> parse_raw(std::string_view body, const ModelSpec& model) {
  if (model.inputs.size() != 1)
    return invalid("a raw request needs a model with one input, this one has " +
                   std::to_string(model.inputs.size()));
  const TensorSpec& spec = model.inputs[0];
  const std::optional<Datatype> datatype = datatype_from(spec.datatype);
  SLUICE_CHECK(datatype.has_value(), spec.datatype);
  Tensor tensor{.name = spec.name, .datatype = *datatype, .shape = spec.shape};
  if (!tensor.shape.empty() && tensor.shape[0] < 0) tensor.shape[0] = 1;  // one inference
  if (std::ranges::count_if(tensor.shape, [](int64_t d) { return d < 0; }) > 1)
    return invalid("a raw request needs an input with at most one variable dimension, '" +
                   spec.name + "' is " + to_string(spec.shape));
  if (const auto open = std::ranges::find_if(tensor.shape, [](int64_t d) { return d < 0; });
      open != tensor.shape.end()) {
    *open = 1;
    SLUICE_ASSIGN(others, element_count(tensor.shape));
    const size_t row = static_cast<size_t>(others) * element_bytes(*datatype);
    if (row > 0) *open = static_cast<int64_t>(body.size() / row);
  }
  if (*datatype == Datatype::kBytes)
    append_bytes_element(tensor.data, body);
  else
    tensor.data = body;
  SLUICE_TRY(check_data(tensor));
  InferRequest request;
  request.inputs.push_back(std::move(tensor));
  SLUICE_TRY(fit_outputs(request.outputs, model, true));
  return request;
}

Result<size_t> parse_header_length(std::string_view text, size_t body) {
  size_t length = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (fault != std::errc() || end != text.data() + text.size())
    return invalid("Inference-Header-Content-Length: '" + std::string(text.substr(0, 40)) +
                   "' is no length");
  if (length > body)
    return invalid("Inference-Header-Content-Length: " + std::to_string(length) +
                   ", the body has " + std::to_string(body) + " bytes");
  return length;
}

Result<InferRequest> parse_root(simdjson::dom::object root, std::string_view binary,
                                const ModelSpec& model) {
  InferRequest request;
  if (const std::optional<element> id = find(root, "id")) {
    std::string_view text;
    if (id->get(text) != simdjson::SUCCESS) return invalid("id: must be a string");
    request.id = text;
  }
  SLUICE_ASSIGN(parameters, read_parameters(root, ""));
  SLUICE_ASSIGN(binary_output, boolean(parameters, "binary_data_output", false));
  SLUICE_ASSIGN(inputs, read_inputs(root, binary));
  request.inputs = std::move(inputs);
  SLUICE_TRY(fit_inputs(request.inputs, model));
  SLUICE_ASSIGN(outputs, read_outputs(root, binary_output));
  request.outputs = std::move(outputs);
  SLUICE_TRY(fit_outputs(request.outputs, model, binary_output));
  return request;
}

}  // namespace

Result<InferRequest> parse_infer(std::string_view body,
                                 std::optional<std::string_view> header_length,
                                 const ModelSpec& model) {
  size_t json_bytes = body.size();
  if (header_length) {
    SLUICE_ASSIGN(length, parse_header_length(*header_length, body.size()));
    if (length == 0) return parse_raw(body, model);
    json_bytes = length;
  }
  simdjson::dom::parser parser;
  if (parser.allocate(json_bytes, kMaxDepth) != simdjson::SUCCESS)
    return Error{ErrorKind::kInternal, "no memory for the request"};
  simdjson::dom::object root;
  simdjson::error_code fault = parser.parse(body.data(), json_bytes).get(root);
  if (fault != simdjson::SUCCESS && fault != simdjson::INCORRECT_TYPE) {
    auto readable = mark_non_finite(body.substr(0, json_bytes));
    if (auto widened = widen_integers(readable ? *readable : body.substr(0, json_bytes)))
      readable = std::move(widened);
    if (readable) fault = parser.parse(*readable).get(root);
  }
  if (fault == simdjson::INCORRECT_TYPE) return invalid("the body must be a JSON object");
  if (fault != simdjson::SUCCESS)
    return invalid(std::string("JSON: ") + simdjson::error_message(fault));
  return parse_root(root, body.substr(json_bytes), model);
}

}  // namespace sluice::runtime
