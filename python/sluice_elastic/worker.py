"""What every worker of a job does: it obeys its controller, waits for the next one, and asks before it leaves."""
import os
import signal
import socket
import sys
import time

from sluice_elastic.link import LEAVE_PATIENCE, Lost, Refused, connect


class Worker:
    """`samples`, `parameter_bytes`: of the job, as far as this worker knows; else 0."""

    def __init__(self, samples=0, parameter_bytes=0):
        self._loaded = {"samples": samples, "parameter_bytes": parameter_bytes}
        self._generation = self._term = 0
        self._ending = self._asked_to_leave = None  # when
        signal.signal(signal.SIGTERM, self._end)
        self._connect()
        if port := int(os.environ.get("PORT", 0)):  # the platform's sign that this worker is ready
            self._ready = socket.create_server(("127.0.0.1", port))

    def state_step(self):
        """The step of the state that it has; -1: none."""
        return -1

    def save(self):
        """Writes a checkpoint of that state."""

    def _end(self, *_):
        self._ending = self._ending or time.monotonic()

    def _connect(self):
        self._link, self._welcome = connect(self._generation, self.state_step(), self._term, lambda: self._ending)
        self._term = self._welcome["term"]
        self._asked_to_leave = None
        self._link.send("loaded", **self._loaded)

    def _next_form(self):
        """Returns the next generation's form; None once this worker may end."""
        while True:
            message = self._link.next()
            if message is None:
                if self._link.lost:
                    print("sluice_elastic: the controller is gone; waiting for the next one", file=sys.stderr)
                    self._connect()
                elif self._leave_is_overdue():
                    raise Lost("was to end, and the controller did not let it leave")
            elif message["kind"] == "form":
                self._generation = message["generation"]
                return message
            elif message["kind"] == "leave":
                if message["save"] and self.state_step() >= 0:
                    self.save()
                return None
            elif message["kind"] == "refused":
                raise Refused(message["error"])

    def _stopped(self, why):
        self._link.send("stopped", generation=self._generation, step=self.state_step(), why=why)

    def _leave_is_overdue(self):
        if self._ending and not self._asked_to_leave:
            self._asked_to_leave = time.monotonic()
            self._link.send("leaving")
        return self._asked_to_leave and time.monotonic() - self._asked_to_leave >= LEAVE_PATIENCE

    def _fail(self, error, for_good=False):
        print(f"sluice_elastic: {error}", file=sys.stderr)
        self._link.send("failed", error=error, for_good=for_good)
