"""A worker's connection to its job's controller: a Unix socket, one JSON object a line, and a thread that
reads it. src/train/messages.h has the messages.
"""
import json
import os
import socket
import threading
import time

PROTOCOL_VERSION = 2
RECONNECT_PATIENCE = 60  # seconds, while no controller answers
LEAVE_PATIENCE = 13  # seconds, from the wish to end
POLL = 0.05


class Lost(Exception):
    """The controller is gone, or has ended the generation."""


class Refused(Exception):
    """The controller does not want this worker."""


class Link:
    """Any thread may call send(), one next()."""

    def __init__(self, generation, step):
        address = os.environ["JOB_CONTROLLER"]
        if not address.startswith("unix:"):
            raise ValueError(f"JOB_CONTROLLER: '{address}' is not unix:PATH")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(address[len("unix:"):])
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._messages, self._values = [], {}
        self._halted, self._batch = -1, 0
        self.lost = False
        threading.Thread(target=self._read, daemon=True).start()
        self.send("hello", job=os.environ["JOB_NAME"], key=os.environ["JOB_KEY"], worker=os.environ["JOB_WORKER"],
                  version=PROTOCOL_VERSION, generation=generation, step=step)

    def close(self):
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def send(self, kind, **fields):
        line = json.dumps({"kind": kind, **fields}, allow_nan=False).encode() + b"\n"
        try:
            with self._sending:
                self._socket.sendall(line)
        except OSError:
            self.lost = True

    def next(self, patience=POLL):
        """Returns the next welcome, form, leave or refused; None when the time is over or the controller is gone."""
        with self._changed:
            self._changed.wait_for(lambda: self._messages or self.lost, patience)
            return self._messages.pop(0) if self._messages else None

    def halted(self, generation):
        return self.lost or self._halted >= generation

    def take_batch(self):
        """Returns the batch that was asked for since the last call; 0: none."""
        batch, self._batch = self._batch, 0
        return batch

    def set(self, generation, key, value):
        self.send("set", key=f"{generation}/{key}", value=value)

    def wait_for(self, generation, key):
        """Returns what a worker of that generation has set. Raises Lost if the generation is to end."""
        name = f"{generation}/{key}"
        self.send("get", key=name)
        with self._changed:
            self._changed.wait_for(lambda: name in self._values or self.halted(generation))
            if name not in self._values:
                raise Lost(f"generation {generation} is to end")
            return self._values[name]

    def _read(self):
        try:
            with self._socket.makefile("r") as lines:
                for line in lines:
                    self._take(json.loads(line))
        except OSError:
            pass
        with self._changed:
            self.lost = True
            self._changed.notify_all()

    def _take(self, message):
        kind = message["kind"]
        if kind == "ping":  # also while the script computes a step: a stopped worker does not answer
            return self.send("pong")
        with self._changed:
            if kind == "halt":
                self._halted = message["generation"]
            elif kind == "adapt":
                self._batch = message["batch"]
            elif kind == "value":
                self._values[message["key"]] = message["value"]
            else:
                self._messages.append(message)
            self._changed.notify_all()


def connect(generation, step, term, ending):
    """Tries again until a controller of at least that term answers; returns the link and its welcome.

    Raises Refused, and Lost if none answers in time. `ending`: says whether this worker is to end.
    """
    begun = time.monotonic()
    while True:
        try:
            link = Link(generation, step)
            answer = link.next(10)
            if answer and answer["kind"] == "refused":
                raise Refused(answer["error"])
            if answer and answer["kind"] == "welcome" and answer["term"] >= term:
                return link, answer
            link.close()
        except OSError:
            pass
        if time.monotonic() - begun >= (LEAVE_PATIENCE if ending() else RECONNECT_PATIENCE):
            raise Lost("no controller of the job answers")
        time.sleep(POLL)
