"""Callers that send their next request once the last one is answered, as the perf client of SMIF's evaluation does."""
import http.client
import json
import math
import threading
import time
from typing import NamedTuple


class Request(NamedTuple):
    function: str
    inferences: int
    header: bytes  # in JSON, before the input's bytes
    data: bytes


def zeros(function, *shape):
    """A request with the input `input`, whose first dimension is the number of inferences."""
    header = {"inputs": [{"name": "input", "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": 4 * math.prod(shape)}}],
              "parameters": {"binary_data_output": True}}
    return Request(function, shape[0], json.dumps(header).encode(), bytes(4 * math.prod(shape)))


class Answer(NamedTuple):
    request: Request
    begun: float
    ended: float
    good: bool

    def seconds(self):
        return self.ended - self.begun

    def part(self, begin, end):
        """The part of its time that lies in an interval: what of its work counts there."""
        return max(min(self.ended, end) - max(self.begun, begin), 0) / self.seconds()


class Figures(NamedTuple):
    throughput: float  # good inferences a second
    answers: list  # of requests that ended in the interval
    bad: int


def split(first, second, share):
    """Requests, of which `share` are the first one, evenly interleaved."""
    balance = 0.0
    while True:
        balance += share
        if balance >= 0.5:
            balance -= 1
            yield first
        else:
            yield second


def ask(connection, request):
    connection.request("POST", f"/v2/models/{request.function}/infer", request.header + request.data, {
        "Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(request.header))})
    answer = connection.getresponse()
    answer.read()
    return answer.status == 200


def play(gateway, requests, callers, seconds, settle=1.0, objective=float("inf")):
    """So many callers send what `requests` yields. What they did in the interval behind `settle` counts; an answer above the
    objective's seconds is not good."""
    lock, answers = threading.Lock(), []
    begin = time.monotonic() + settle
    end = begin + seconds

    def call():
        connection = http.client.HTTPConnection(*gateway, timeout=60)
        while time.monotonic() < end:
            with lock:
                request = next(requests)
            begun = time.monotonic()
            good = ask(connection, request)
            answer = Answer(request, begun, time.monotonic(), good)
            with lock:
                answers.append(answer._replace(good=good and answer.seconds() <= objective))
        connection.close()

    threads = [threading.Thread(target=call) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = sum(a.part(begin, end) * a.request.inferences for a in answers if a.good)
    inside = [a for a in answers if begin <= a.ended < end]
    return Figures(done / seconds, inside, sum(not a.good for a in inside))
