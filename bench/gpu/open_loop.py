"""An open-loop load from one process a server: requests go out at planned times, and a latency counts from there."""
import http.client
import json
import multiprocessing
import random
import threading
import time

WORKERS = 48  # requests of one server that are open at once, at most


class Target:
    """A server's model, and the request that it gets."""

    def __init__(self, address, name, request=(None, {})):
        self.address, self.path = address, f"/v2/models/{name}"
        self.body, self.head = self.request = request

    def is_ready(self):
        connection = self.connect()
        try:
            connection.request("GET", "/v2/health/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def describe(self):
        """Makes up a request for the one input that the server describes."""
        connection = self.connect()
        connection.request("GET", self.path)
        (taken,) = json.loads(connection.getresponse().read())["inputs"]
        connection.close()
        count = 1
        for n in taken["shape"]:
            count *= n
        size = {"UINT8": 1, "INT64": 8}[taken["datatype"]]
        choice = random.Random(7)
        values = b"".join(choice.randrange(100).to_bytes(size, "little") for _ in range(count))
        asked = {"inputs": [{**taken, "parameters": {"binary_data_size": len(values)}}], "parameters": {"binary_data_output": True}}
        text = json.dumps(asked).encode()
        head = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(text))}
        self.body, self.head = self.request = text + values, head

    def ask(self, connection):
        """The answer's status; 0 where there is none."""
        for kept in (connection.sock is not None, False):  # a kept connection may have been closed meanwhile
            try:
                connection.request("POST", self.path + "/infer", self.body, self.head)
                answer = connection.getresponse()
                answer.read()
                return answer.status
            except (OSError, http.client.HTTPException):
                connection.close()
                if not kept:
                    return 0

    def connect(self):
        return http.client.HTTPConnection(self.address, timeout=30)


def arrivals(steps, seed):
    """Poisson arrivals in [(seconds, rate), …], as seconds from the beginning."""
    choice, times, begin = random.Random(seed), [], 0.0
    for seconds, rate in steps:
        at = begin
        while rate > 0 and (at := at + choice.expovariate(rate)) < begin + seconds:
            times.append(at)
        begin += seconds
    return times


def send(target, times, begin, pipe):
    """Sends the (latency in ms, status) of each request into the pipe."""
    answers, left, lock = [], iter(times), threading.Lock()

    def work():
        connection = target.connect()
        while True:
            with lock:
                at = next(left, None)
            if at is None:
                return connection.close()
            time.sleep(max(0, begin + at - time.monotonic()))
            status = target.ask(connection)
            answers.append((1000 * (time.monotonic() - begin - at), status))

    workers = [threading.Thread(target=work) for _ in range(WORKERS)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    pipe.send(answers)


def play(targets, plans):
    """The answers of each target to its arrivals, which begin at once."""
    begin, running = time.monotonic() + 0.5, []
    for target, times in zip(targets, plans):
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.Process(target=send, args=(target, times, begin, theirs))
        process.start()
        running.append((process, ours))
    found = [ours.recv() for _, ours in running]
    for process, _ in running:
        process.join()
    return found


def one_by_one(target, count):
    """The latencies in ms of requests that are sent one after the other."""
    connection, found = target.connect(), []
    for _ in range(count):
        sent = time.monotonic()
        status = target.ask(connection)
        if status != 200:
            raise SystemExit(f"{target.path}: answered {status}")
        found.append(1000 * (time.monotonic() - sent))
    connection.close()
    return found
