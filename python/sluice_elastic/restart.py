"""Runs a script that knows nothing of Sluice as a worker of a training function, under torchrun's variables.

    python3 -m sluice_elastic.restart COMMAND...

Whenever the job's workers change, each ends its script (SIGTERM, then SIGKILL after 11 s) and runs it again
with the new RANK and WORLD_SIZE. The script goes on from its own checkpoints; JOB_ARTIFACTS names a folder
that all of the job's workers can write to, and that is there until the job is deleted. The job has finished
once the script has ended with 0 on every rank.
"""
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time

from sluice_elastic.link import Lost, Refused
from sluice_elastic.worker import Worker

END_PATIENCE = 11  # seconds, from SIGTERM to SIGKILL: the platform gives this process 15
HALT_PATIENCE = 3  # seconds: a script may end because that of another rank was killed
MOST_FAILURES = 3  # in a row
LONG_RUN = 60  # seconds after which earlier failures do not count
PR_SET_PDEATHSIG = 1


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class ScriptWorker(Worker):
    def __init__(self, command):
        super().__init__()
        self._command = command
        self._failures = 0

    def run(self):
        while form := self._next_form():
            self._stopped(self._run_script(form))

    def _halted(self):
        self._leave_is_overdue()
        return self._link.halted(self._generation)

    def _run_script(self, form):
        """Returns why it ended."""
        rank, world = form["rank"], form["world"]
        try:
            if rank == 0:
                self._link.set(self._generation, "port", str(free_port()))
            port = self._link.wait_for(self._generation, "port")
        except Lost:
            return "halted"
        begun = time.monotonic()
        script = subprocess.Popen(self._command, env=self._environment(rank, world, port),
                                  preexec_fn=die_with_parent)
        if rank == 0:
            self._link.send("progress", generation=self._generation)
        while script.poll() is None and not self._halted():
            time.sleep(0.02)
        if script.poll() is None:
            return self._stop(script)
        if script.returncode == 0:
            return self._wait_for_others(rank, world)
        return self._failed(script.returncode, time.monotonic() - begun)

    def _environment(self, rank, world, port):
        kept = {k: v for k, v in os.environ.items() if k != "JOB_KEY"}
        return {**kept, "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                "GROUP_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                "TORCHELASTIC_RUN_ID": os.environ["JOB_NAME"],
                "TORCHELASTIC_RESTART_COUNT": str(self._generation - 1), "JOB_ARTIFACTS": self._welcome["artifacts"],
                "GLOO_SOCKET_IFNAME": kept.get("GLOO_SOCKET_IFNAME", "lo")}

    def _stop(self, script):
        script.terminate()
        try:
            script.wait(END_PATIENCE)
        except subprocess.TimeoutExpired:
            script.kill()
            script.wait()
        return "halted"

    def _wait_for_others(self, rank, world):
        try:
            self._link.set(self._generation, f"ended/{rank}", "0")
            for other in range(world) if rank == 0 else []:
                self._link.wait_for(self._generation, f"ended/{other}")
            if rank == 0:
                self._link.send("finished", step=0, model="")
        except Lost:
            return "halted"
        while not self._halted():
            time.sleep(0.02)
        return "halted"

    def _failed(self, code, seconds):
        begun = time.monotonic()
        while time.monotonic() - begun < HALT_PATIENCE:
            if self._halted():
                return "halted"
            time.sleep(0.02)
        self._failures = 1 if seconds >= LONG_RUN else self._failures + 1
        how = f"exit status {code}" if code > 0 else f"signal {-code}"
        error = f"{' '.join(self._command)}: ended with {how}"
        if self._failures >= MOST_FAILURES:
            self._fail(f"{error}, {self._failures} times in a row")
        else:
            print(f"sluice_elastic: {error}", file=sys.stderr)
        return "lost"


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: python3 -m sluice_elastic.restart COMMAND...")
    try:
        ScriptWorker(sys.argv[1:]).run()
    except (Refused, Lost) as e:
        sys.exit(f"sluice_elastic: {e}")


if __name__ == "__main__":
    main()
