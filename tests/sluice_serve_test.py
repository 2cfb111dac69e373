"""python/sluice_serve.py, as a user's script runs it: the protocol, what callers do wrong, and its
end. Without a framework."""
import ast
import http.client
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

FILE = pathlib.Path(__file__).parent.parent / "python/sluice_serve.py"
SCRIPT = """
import sys, time
from sluice_serve import serve
def twice(x, n):
    if n.tolist() == [13]: raise RuntimeError("unlucky")
    if n.tolist() == [500]: print("began", file=sys.stderr, flush=True)
    time.sleep(n.tolist()[0] / 1000)
    values = x.tolist()
    return [[2 * v for v in values[i:i + 2]] for i in range(0, len(values), 2)], [len(values)]
serve(twice, inputs={"x": ("FP32", [-1, 2]), "n": ("INT64", [1])}, outputs={"y": ("FP32", [-1, 2]), "count": ("INT32", [1])})
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def tensor(name, datatype, shape, data):
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


def request(x=((1, 2), (3, 4.5)), n=0, **more):
    return {"inputs": [tensor("x", "FP32", [len(x), 2], x), tensor("n", "INT64", [1], [n])], **more}


class Serve(unittest.TestCase):
    def setUp(self):
        self.port = free_port()
        self.process = subprocess.Popen([sys.executable, "-c", SCRIPT], stderr=subprocess.PIPE,
                                        env={**os.environ, "PORT": str(self.port), "PYTHONPATH": str(FILE.parent)})
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.01)
        self.fail("it does not listen")

    def tearDown(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def ask(self, body, path="/v2/models/m/infer", headers=None, connection=None, method="POST"):
        c = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request(method, path, body if isinstance(body, (bytes, type(None))) else json.dumps(body), headers or {})
        answer = c.getresponse()
        said = answer.status, answer.read(), dict(answer.getheaders())
        if connection is None:
            c.close()
        return said

    def test_answers_in_json(self):
        status, body, _ = self.ask(request(id="7"))
        self.assertEqual((status, json.loads(body)), (200, {
            "model_name": "m", "id": "7",
            "outputs": [tensor("y", "FP32", [2, 2], [2, 4, 6, 9]), tensor("count", "INT32", [1], [4])]}))

    def test_answers_in_bytes_what_was_asked_for_in_bytes(self):
        asked = {"inputs": [
            {"name": "n", "datatype": "INT64", "shape": [1], "parameters": {"binary_data_size": 8}},
            {"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}],
            "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}
        text = json.dumps(asked).encode()
        status, body, head = self.ask(text + struct.pack("<q2f", 0, 1.5, -2),
                                      headers={"Inference-Header-Content-Length": str(len(text))})
        self.assertEqual(status, 200, body)
        size = int(head["Inference-Header-Content-Length"])
        self.assertEqual(json.loads(body[:size])["outputs"],
                         [{"name": "y", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}])
        self.assertEqual(struct.unpack("<2f", body[size:]), (3, -4))

    def test_describes_itself(self):
        self.assertEqual(self.ask(None, "/v2/models/m", method="GET")[0], 200)
        self.assertEqual(self.ask(None, "/v2/models/m/versions/3/ready", method="GET")[0], 200)
        self.assertEqual(self.ask(None, "/v2/health/ready", method="GET")[0], 200)
        self.assertEqual(self.ask(None, "/other", method="GET")[0], 404)

    def test_what_is_wrong_is_named_and_the_connection_goes_on(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        three = tensor("x", "FP32", [1, 3], [1, 2, 3])
        n = tensor("n", "INT64", [1], [0])
        for asked, why in [
                (b"{", "the body is no JSON"), ({}, "inputs: is missing"), ([1], "inputs: is missing"),
                ({"inputs": [n]}, "inputs: x, n are wanted"),
                ({"inputs": [three, n]}, "inputs.x.shape: [1, 3]"),
                ({"inputs": [{**three, "shape": [-1, 2]}, n]}, "inputs.x.shape"),
                ({"inputs": [{**three, "shape": [1 << 40, 2]}, n]}, "inputs.x.data: 3 values"),
                ({"inputs": [{**three, "shape": [1, 2], "data": [1, "a"]}, n]}, "inputs.x.data"),
                ({"inputs": [{**three, "shape": [1, 2], "data": [[1], [2, 3]]}, n]}, "rows differ"),
                ({"inputs": [{**three, "datatype": "FP16"}, n]}, "FP32 is wanted"),
                ({"inputs": [{**three, "shape": [1, 2], "parameters": {"binary_data_size": 9}}, n]}, "binary_data_size: 9"),
                ({"inputs": [{**three, "parameters": None}, n]}, "inputs.x.shape"),
                ({"inputs": [{**three, "shape": [1, 2], "parameters": None}, n]}, "parameters: None"),
                ({**request(), "outputs": ["y"]}, "outputs: a list"), ({"inputs": [{"name": ["x"]}]}, "inputs: a list"),
                (b"[" * 100000, "nested too deep"), (request(x=[[1, 1e99]]), "inputs.x.data")]:
            status, body, _ = self.ask(asked, connection=c)
            self.assertEqual(status, 400, body)
            self.assertIn(why, json.loads(body)["error"])
        status, body, _ = self.ask(request(n=13), connection=c)
        self.assertEqual(status, 500)
        self.assertIn("unlucky", json.loads(body)["error"])
        self.assertEqual(self.ask(request(), connection=c)[0], 200)
        c.close()

    def test_after_a_body_of_unknown_length_the_connection_ends(self):
        for head, said in [("Content-Length: abc", b"400"), ("Content-Length: -1", b"400"),
                           ("Content-Length: 9999999999", b"413"), ("Transfer-Encoding: chunked\r\n\r\n-5", b"")]:
            with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
                s.sendall(f"POST /v2/models/m/infer HTTP/1.1\r\n{head}\r\n\r\nGET / HTTP/1.1\r\n\r\n".encode())
                s.shutdown(socket.SHUT_WR)
                got = b"".join(iter(lambda: s.recv(65536), b""))
                self.assertIn(said, got[:13])
                self.assertLessEqual(got.count(b"HTTP/1.1"), 1)

    def test_a_body_in_chunks_arrives(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        text = json.dumps(request()).encode()
        c.request("POST", "/v2/models/m/infer", iter([text[:9], text[9:]]), encode_chunked=True,
                  headers={"Transfer-Encoding": "chunked"})
        self.assertEqual(c.getresponse().status, 200)
        c.close()

    def test_it_finishes_what_it_has_and_leaves(self):
        got = []
        asking = threading.Thread(target=lambda: got.append(self.ask(request(n=500))[0]))
        asking.start()
        self.assertEqual(self.process.stderr.readline(), b"began\n")
        self.process.send_signal(signal.SIGTERM)
        asking.join()
        self.assertEqual(got, [200])
        self.assertEqual(self.process.wait(60), 0)

    def test_is_of_python_3_9_and_the_standard_library(self):
        tree = ast.parse(FILE.read_text(), feature_version=(3, 9))
        named = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
        named |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        self.assertLessEqual(named, sys.stdlib_module_names)


class Marks(unittest.TestCase):
    """What the platform is told of iterations."""

    def test_a_request_is_an_iteration_of_its_batch_size(self):
        sys.path.insert(0, str(FILE.parent))
        import sluice_serve
        told = []
        def double(x):
            told.append("computes")
            if x.tolist()[0] == 13:
                raise RuntimeError("unlucky")
            return x
        server = sluice_serve.Server(double, {"x": ("FP32", [-1])}, {"y": ("FP32", [-1])}, False)
        self.assertIsNone(server.marks, "nothing is preloaded here")
        server.marks = (lambda: told.append("begin"), lambda kind: told.append(("end", kind)))
        for data in ([1, 2, 3], [13]):
            body = json.dumps({"inputs": [tensor("x", "FP32", [len(data)], data)]}).encode()
            try:
                server.infer(body, len(body))
            except RuntimeError:
                told.append("fails")
        self.assertEqual(told, ["begin", "computes", ("end", 3), "begin", "computes", ("end", 1), "fails"])


class End(unittest.TestCase):
    def test_a_signal_just_before_it_waits_for_a_connection_ends_it(self):
        sys.path.insert(0, str(FILE.parent))
        import sluice_serve
        self.addCleanup(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))
        server = sluice_serve.Server(lambda x: x, {"x": ("FP32", [-1])}, {"y": ("FP32", [-1])}, False)

        class Interrupted(socket.socket):
            def accept(self):
                server.ending = True  # by the handler, which ran before the system call began
                return super().accept()

        with Interrupted() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            server.run(listening)
        self.assertFalse(server.is_busy())


class Datatypes(unittest.TestCase):
    """Every datatype, there and back, without a framework."""

    def test_all_pack(self):
        sys.path.insert(0, str(FILE.parent))
        import sluice_serve
        for datatype in sluice_serve.DATATYPES:
            values = [True, False] if datatype == "BOOL" else [1, 2]
            shape, raw = sluice_serve.from_framework([values], datatype)
            self.assertEqual(shape, [1, 2])
            self.assertEqual(sluice_serve.to_framework(datatype, shape, bytearray(raw)).tolist(), values)


if __name__ == "__main__":
    unittest.main()
