"""Serves a function, or a module of PyTorch, by the Open Inference Protocol. The standard library
alone, Python 3.9 and later, any framework; one file, to be copied beside your own.

    from sluice_serve import serve
    serve(lambda x: x * 2, inputs={"x": ("FP32", [-1, 4])}, outputs={"y": ("FP32", [-1, 4])})

The function gets one argument an input and returns one value an output (a tuple for several). They
are tensors of PyTorch where that is imported, else arrays of NumPy where that is, else Tensor. The
first dimension is the batch; -1 is variable. Requests are computed one after the other, unless
`concurrent`. The server listens on 127.0.0.1 at $PORT, and finishes what it has on SIGTERM.
"""
import json
import math
import os
import signal
import socket
import struct
import sys
import threading

DATATYPES = {  # of the protocol: struct's letter, bytes, NumPy's and PyTorch's name
    "BOOL": ("?", 1, "bool"), "UINT8": ("B", 1, "uint8"), "INT8": ("b", 1, "int8"),
    "INT16": ("h", 2, "int16"), "INT32": ("i", 4, "int32"), "INT64": ("q", 8, "int64"),
    "FP16": ("e", 2, "float16"), "FP32": ("f", 4, "float32"), "FP64": ("d", 8, "float64"),
}
MOST_HEAD, MOST_BODY, MOST_DIMENSIONS = 32 << 10, 1 << 30, 32


class Refused(Exception):
    """The caller's fault: answered 400, or `status`."""

    def __init__(self, why, status=400):
        super().__init__(why)
        self.status = status


class Tensor:
    """Numbers of one datatype without a framework: `raw` has their bytes, the last dimension first."""

    def __init__(self, datatype, shape, raw):
        self.datatype, self.shape, self.raw = datatype, list(shape), raw

    def tolist(self):
        return unpacked(self.datatype, self.raw)


def packed(datatype, numbers):
    return struct.pack(f"<{len(numbers)}{DATATYPES[datatype][0]}", *numbers)


def unpacked(datatype, raw):
    letter, size, _ = DATATYPES[datatype]
    return list(struct.unpack(f"<{len(raw) // size}{letter}", raw))


def to_framework(datatype, shape, raw):
    """`raw` is a bytearray of the tensor's bytes, which the framework may keep."""
    name = DATATYPES[datatype][2]
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        kind = getattr(torch, name)
        flat = torch.frombuffer(raw, dtype=kind) if raw else torch.empty(0, dtype=kind)
        return flat.reshape(shape)
    if "numpy" in sys.modules:
        return sys.modules["numpy"].frombuffer(raw, dtype=name).reshape(shape)
    return Tensor(datatype, shape, raw)


def from_framework(value, datatype):
    """Returns the shape and the bytes of a tensor, an array, a Tensor or a (nested) list."""
    name = DATATYPES[datatype][2]
    if isinstance(value, Tensor):
        return value.shape, bytes(value.raw)
    if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
        value = on_host(value).to(getattr(sys.modules["torch"], name)).contiguous().numpy()
    if hasattr(value, "astype"):  # an array of NumPy
        value = value.astype(name, copy=False)
        return list(value.shape), value.tobytes()
    shape, flat = flattened(value)
    return shape, packed(datatype, flat)


def flattened(value, depth=0):
    """Returns the shape of nested lists, and their numbers in a row."""
    if not isinstance(value, (list, tuple)):
        return [], [value]
    if depth > MOST_DIMENSIONS:
        raise Refused("data: is nested too deep")
    shape, flat = None, []
    for item in value:
        inner, numbers = flattened(item, depth + 1)
        if shape is not None and inner != shape:
            raise Refused("data: rows differ in their lengths")
        shape = inner
        flat += numbers
    return [len(value)] + (shape or []), flat


def mapping(of, key):
    """Returns a field that is a mapping where it is there."""
    value = of.get(key, {})
    if not isinstance(value, dict):
        raise Refused(f"{key}: {value!r}; a mapping is wanted")
    return value


def by_name(listed, what):
    if not isinstance(listed, list) or not all(
            isinstance(i, dict) and isinstance(i.get("name"), str) for i in listed):
        raise Refused(f"{what}: a list of mappings with a name is wanted")
    return {i["name"]: i for i in listed}


def read_input(spec, given, binary):
    """Returns one input as the framework has it. `binary`: the request's bytes behind its JSON."""
    name, (datatype, shape) = spec
    if given.get("datatype") != datatype:
        raise Refused(f"inputs.{name}.datatype: {given.get('datatype')!r}; {datatype} is wanted")
    sizes = given.get("shape")
    fits = isinstance(sizes, list) and len(sizes) == len(shape) and all(
        type(n) is int and n >= 0 and want in (-1, n) for n, want in zip(sizes, shape))
    if not fits:
        raise Refused(f"inputs.{name}.shape: {sizes}; {shape} is wanted")
    size = DATATYPES[datatype][1]
    count = math.prod(sizes)
    length = mapping(given, "parameters").get("binary_data_size")
    if length is not None:
        if length != count * size or length > len(binary):
            raise Refused(f"inputs.{name}.parameters.binary_data_size: {length}; {count * size} is wanted")
        raw = bytearray(binary[:length])
        del binary[:length]
        return to_framework(datatype, sizes, raw)
    _, flat = flattened(given.get("data", []))
    if len(flat) != count:
        raise Refused(f"inputs.{name}.data: {len(flat)} values; {count} are wanted")
    try:
        return to_framework(datatype, sizes, bytearray(packed(datatype, flat)))
    except (struct.error, OverflowError) as fault:
        raise Refused(f"inputs.{name}.data: {fault}") from None


def marks():
    """What tells the platform when an iteration begins and ends (wire/iteration_marks.h), if it has
    preloaded that."""
    try:
        import ctypes
        here = ctypes.CDLL(None)
        return here.sluice_iteration_begin, here.sluice_iteration_end
    except (ImportError, OSError, AttributeError):
        return None


def rows_of(arguments):
    """The batch size: requests of one are comparable."""
    shape = getattr(arguments[0], "shape", ()) if arguments else ()
    return int(shape[0]) if len(shape) > 0 else 1


def on_host(value):
    """A tensor of PyTorch once it is computed, in the host's memory; any other value as it is."""
    torch = sys.modules.get("torch")
    return value.detach().cpu() if torch is not None and isinstance(value, torch.Tensor) else value


class Server:
    def __init__(self, function, inputs, outputs, concurrent):
        self.function, self.inputs, self.outputs = function, dict(inputs), dict(outputs)
        for name, (datatype, _) in [*self.inputs.items(), *self.outputs.items()]:
            if datatype not in DATATYPES:
                raise ValueError(f"{name}: {datatype!r} is none of {', '.join(DATATYPES)}")
        self.turn = None if concurrent else threading.Lock()
        self.busy, self.ending = set(), False  # the connections whose requests are not answered yet
        self.lock = threading.Lock()
        self.marks = marks()

    # ---- the protocol ------------------------------------------------------------------------

    def infer(self, body, json_bytes):
        """Returns the JSON of an answer, and the bytes behind it."""
        try:
            request = json.loads(body[:json_bytes])
        except ValueError as fault:
            raise Refused(f"the body is no JSON: {fault}") from None
        except RecursionError:
            raise Refused("the body is nested too deep") from None
        if not isinstance(request, dict) or "inputs" not in request:
            raise Refused("inputs: is missing; a list is wanted")
        given = by_name(request["inputs"], "inputs")
        unknown = given.keys() - self.inputs.keys()
        if unknown or len(given) < len(self.inputs):
            raise Refused(f"inputs: {', '.join(self.inputs)} are wanted, {', '.join(given)} are there")
        wanted = {n: mapping(o, "parameters") for n, o in by_name(request.get("outputs", []), "outputs").items()}
        all_binary = mapping(request, "parameters").get("binary_data_output", False)
        binary = bytearray(body[json_bytes:])
        read = {name: read_input((name, self.inputs[name]), i, binary) for name, i in given.items()}
        arguments = [read[name] for name in self.inputs]
        if self.turn is None:
            made = self.compute(arguments)
        else:
            with self.turn:
                made = self.compute(arguments)
        answer, blobs = self.answer(made, wanted, all_binary)
        return ({**answer, "id": request["id"]} if "id" in request else answer), blobs

    def compute(self, arguments):
        """Returns the function's values. To the platform, that is one iteration."""
        begin, end = self.marks or (None, None)
        if begin is not None:
            begin()
        try:
            made = self.function(*arguments)
            return tuple(map(on_host, made if isinstance(made, tuple) else (made,)))
        finally:
            if end is not None:
                end(rows_of(arguments))

    def answer(self, made, wanted, all_binary):
        """`wanted`: parameters of outputs by name; empty: all outputs."""
        if len(made) != len(self.outputs):
            raise RuntimeError(f"the function returned {len(made)} values; {len(self.outputs)} are stated")
        outputs, blobs = [], []
        for (name, (datatype, _)), value in zip(self.outputs.items(), made):
            if wanted and name not in wanted:
                continue
            shape, raw = from_framework(value, datatype)
            output = {"name": name, "datatype": datatype, "shape": shape}
            if wanted.get(name, {}).get("binary_data", all_binary):
                output["parameters"] = {"binary_data_size": len(raw)}
                blobs.append(raw)
            else:
                output["data"] = unpacked(datatype, raw)
            outputs.append(output)
        return {"outputs": outputs}, b"".join(blobs)

    def describe(self, name):
        def tensors(of):
            return [{"name": n, "datatype": d, "shape": list(s)} for n, (d, s) in of.items()]
        return {"name": name, "platform": "program", "inputs": tensors(self.inputs), "outputs": tensors(self.outputs)}

    def respond(self, method, path, head, body):
        """Returns status, JSON and the bytes behind it."""
        parts = path.split("?")[0].strip("/").split("/")
        if parts[:2] == ["v2", "health"]:
            return 200, {"ready": True}, b""
        if parts[:2] != ["v2", "models"] or len(parts) < 3:
            raise Refused(f"{path}: no such path", 404)
        name, rest = parts[2], parts[3:]
        if rest[:1] == ["versions"]:
            rest = rest[2:]
        if rest == ["infer"]:
            if method != "POST":
                raise Refused(f"{method}: POST is wanted", 405)
            json_bytes = size_in(head, "inference-header-content-length", len(body))
            answer, binary = self.infer(body, json_bytes)
            return 200, {"model_name": name, **answer}, binary
        if rest == ["ready"]:
            return 200, {"name": name, "ready": True}, b""
        if not rest:
            return 200, self.describe(name), b""
        raise Refused(f"{path}: no such path", 404)

    # ---- HTTP --------------------------------------------------------------------------------

    def serve_connection(self, connection):
        reader = connection.makefile("rb", 64 << 10)
        try:
            while not self.ending and self.serve_request(connection, reader):
                pass
        except (OSError, ValueError):
            pass  # the peer left, or sent no HTTP
        finally:
            with self.lock:
                self.busy.discard(connection)
            connection.close()

    def serve_request(self, connection, reader):
        """Returns whether the connection goes on."""
        line = reader.readline(MOST_HEAD).split()
        if len(line) != 3:
            return False
        with self.lock:
            if self.ending:
                return False  # it may be asked of another instance
            self.busy.add(connection)
        head = {}
        for field in iter(lambda: reader.readline(MOST_HEAD), b"\r\n"):
            name, colon, value = field.decode("latin-1").partition(":")
            if not colon or len(head) > 256:
                return False
            head[name.lower()] = value.strip()
        method, path = line[0].decode("latin-1"), line[1].decode("latin-1")
        whole = False  # the next request begins behind this one's body
        try:
            body = read_body(reader, head)
            whole = True
            status, answer, binary = self.respond(method, path, head, body)
        except Refused as fault:
            status, answer, binary = fault.status, {"error": str(fault)}, b""
        except Exception as fault:  # the function's
            print(f"sluice_serve: {path}: {fault!r}", file=sys.stderr, flush=True)
            status, answer, binary = 500, {"error": repr(fault)}, b""
        text = json.dumps(answer).encode()
        out = [f"HTTP/1.1 {status} {'OK' if status == 200 else 'Error'}", f"Content-Length: {len(text) + len(binary)}"]
        if binary:
            out += ["Content-Type: application/octet-stream", f"Inference-Header-Content-Length: {len(text)}"]
        else:
            out += ["Content-Type: application/json"]
        keeps = whole and head.get("connection", "").lower() != "close" and line[2] == b"HTTP/1.1" and not self.ending
        if not keeps:
            out += ["Connection: close"]
        connection.sendall("\r\n".join(out).encode() + b"\r\n\r\n" + (b"" if method == "HEAD" else text + binary))
        with self.lock:
            self.busy.discard(connection)
        return keeps

    def run(self, listening):
        def end(*_):
            self.ending = True
            listening.close()
        signal.signal(signal.SIGTERM, end)
        listening.settimeout(0.5)  # a signal just before accept() does not interrupt it
        while not self.ending:
            try:
                connection, _ = listening.accept()
            except socket.timeout:
                continue
            except OSError:
                break
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve_connection, args=(connection,), daemon=True).start()
        while self.is_busy():
            threading.Event().wait(0.01)

    def is_busy(self):
        with self.lock:
            return bool(self.busy)


def size_in(head, name, otherwise):
    text = head.get(name)
    if text is None:
        return otherwise
    if not (text.isascii() and text.isdigit()):
        raise Refused(f"{name}: {text!r}; a number of bytes is wanted")
    return int(text)


def read_body(reader, head):
    if head.get("transfer-encoding", "").lower() == "chunked":
        body = bytearray()
        while True:
            size = int(reader.readline(64).split(b";")[0], 16)
            if size < 0:
                raise ValueError("a chunk's size is below 0")
            if len(body) + size > MOST_BODY:
                raise Refused("body: too large", 413)
            body += reader.read(size)
            reader.readline(MOST_HEAD)
            if size == 0:
                return bytes(body)
    size = size_in(head, "content-length", 0)
    if size > MOST_BODY:
        raise Refused("body: too large", 413)
    body = reader.read(size)
    if len(body) < size:
        raise ValueError("the body breaks off")
    return body


def serve(function, inputs, outputs, concurrent=False):
    """Serves until SIGTERM. `inputs`, `outputs`: {name: (datatype, shape)}, in the order of the
    function's arguments and values; raises ValueError for an unknown datatype."""
    server = Server(function, inputs, outputs, concurrent)
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", int(os.environ["PORT"])))
    listening.listen(128)
    server.run(listening)
