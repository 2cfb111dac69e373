"""Processes of a cluster: each has a name, a log and the command that starts it again."""
import json
import os
import signal
import subprocess
import sys
import time


class Processes:
    """Files of one folder: NAME.json, the command; NAME.pid; NAME.log."""

    def __init__(self, folder, groups):
        self.folder = folder
        self.groups = groups

    def names(self):
        return sorted(str(p.relative_to(self.folder).with_suffix("")) for p in self.folder.glob("**/*.json"))

    def start(self, name, command, environment=None):
        """Starts NAME; `environment` is added to ours."""
        spec = self.folder / f"{name}.json"
        spec.parent.mkdir(parents=True, exist_ok=True)
        spec.write_text(json.dumps({"command": list(map(str, command)),
                                    "environment": environment or {}}))
        self.restart(name)

    def restart(self, name):
        """Starts NAME as it was started before, unless it runs."""
        spec = self.folder / f"{name}.json"
        if not spec.is_file():
            sys.exit(f"cluster: no process {name} here; there are: {' '.join(self.names())}")
        if self.pid(name):
            return
        how = json.loads(spec.read_text())
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(how["command"], env=os.environ | how["environment"],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True, cwd="/",
                                       preexec_fn=lambda: self.groups.enter("system"))
        (self.folder / f"{name}.pid").write_text(str(process.pid))

    def pid(self, name):
        """Returns NAME's pid, or None unless it runs."""
        try:
            pid = int((self.folder / f"{name}.pid").read_text())
            state = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
        except (OSError, ValueError):
            return None
        return None if state == "Z" else pid

    def kill(self, name):
        """Kills NAME with SIGKILL, and waits for its end."""
        pid = self.pid(name)
        if pid is None:
            sys.exit(f"cluster: {name} does not run; there are: {' '.join(self.names())}")
        os.kill(pid, signal.SIGKILL)
        while self.pid(name):
            time.sleep(0.01)

    def tail(self, name):
        """Returns the end of NAME's log, for messages."""
        lines = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-15:])

    def wait(self, name, what, ready, patience_s=120):
        """Waits until ready() of NAME, or says why it is not."""
        until = time.monotonic() + patience_s
        while not ready():
            if self.pid(name) is None or time.monotonic() > until:
                sys.exit(f"cluster: {name}: {what} was not reached:\n{self.tail(name)}")
            time.sleep(0.1)
