"""The cgroups of one cluster, cgroup v1 or v2: all of its processes are below one name.

Namespaces end by themselves with their processes. Cgroups do not, so they are removed here, and
they are also how the processes are found: none is ever looked for by its command line.
"""
import os
import pathlib
import signal
import time

MOUNTED = pathlib.Path("/sys/fs/cgroup")
CONTROLLERS = ["cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd"]
PATIENCE_S = 20


class Cgroups:
    def __init__(self, name):
        self.name = name
        self.v2 = (MOUNTED / "cgroup.controllers").is_file()
        self.hierarchies = [MOUNTED] if self.v2 else [
            MOUNTED / c for c in CONTROLLERS if (MOUNTED / c / "cgroup.procs").is_file()]
        # Where processes of the cluster's own are; kubelets put containers into every hierarchy.
        named = MOUNTED / "systemd"
        self.members = named if named in self.hierarchies else self.hierarchies[-1]

    def make(self, group, cores=None):
        """Makes NAME/GROUP in every hierarchy; `cores` is its cpuset, by default all."""
        for hierarchy in self.hierarchies:
            at = hierarchy
            for part in [self.name, *group.split("/")]:
                if self.v2:
                    self._delegate(at)
                at = at / part
                at.mkdir(exist_ok=True)
                self._fill_cpuset(at)
            if cores and (at / "cpuset.cpus").is_file():
                (at / "cpuset.cpus").write_text(cores)

    def _delegate(self, at):
        offered = (at / "cgroup.controllers").read_text().split()
        (at / "cgroup.subtree_control").write_text(" ".join("+" + c for c in offered))

    def _fill_cpuset(self, at):
        """On v1 a new group's cpuset is empty, and nothing may run there."""
        for name in [] if self.v2 else ["cpuset.cpus", "cpuset.mems"]:
            if (at / name).is_file() and not (at / name).read_text().strip():
                (at / name).write_text((at.parent / name).read_text())

    def enter(self, group):
        """Moves the calling process into NAME/GROUP."""
        (self.members / self.name / group / "cgroup.procs").write_text(str(os.getpid()))

    def pids(self):
        """Returns the processes below NAME; those that this namespace cannot see are left out."""
        found = set()
        for hierarchy in self.hierarchies:
            for procs in (hierarchy / self.name).glob("**/cgroup.procs"):
                try:
                    found.update(int(pid) for pid in procs.read_text().split())
                except OSError:
                    pass  # removed meanwhile
        return found - {0, os.getpid()}

    def kill(self):
        """Ends every process below NAME, also those that they start meanwhile."""
        until = time.monotonic() + PATIENCE_S
        while (pids := self.pids()) and time.monotonic() < until:
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)

    def remove(self):
        """Removes NAME, once its processes are gone; returns whether nothing is left."""
        until = time.monotonic() + PATIENCE_S
        tops = [h / self.name for h in [*self.hierarchies, MOUNTED / "unified"]]
        while any(top.is_dir() for top in tops):
            for top in tops:
                for folder, _, _ in os.walk(top, topdown=False):
                    try:
                        os.rmdir(folder)
                    except OSError:
                        pass  # a process of it is still ending
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True
