"""Namespaces of a cluster's own: network, mounts and processes.

Nothing that runs in them reaches the machine's network, and when their first process ends the
kernel ends all others and drops mounts and addresses. In them SLUICE_CLUSTER names the cluster's
state folder.
"""
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from kube import cgroups

INSIDE = "SLUICE_CLUSTER"
FOLDERS = pathlib.Path("/var/tmp")  # on a disk: containers' layers are overlays of it
KEPT = FOLDERS / "sluice-cluster"
# The first process waits for its command, and for the orphans that it is handed.
FIRST = 'ip link set lo up && "$@"; exit $?'


def inside():
    """Returns the state folder of the cluster whose namespaces we are in, or None."""
    return pathlib.Path(os.environ[INSIDE]) if INSIDE in os.environ else None


def new_spaces(state, command):
    """Returns COMMAND in new namespaces, and the environment that it is to have."""
    unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
               "bash", "-c", FIRST, "alone", *command]
    return unshare, os.environ | {INSIDE: str(state)}


def leave_nothing(state):
    """Ends what runs of a cluster; removes its cgroups and its state. Returns whether all went."""
    groups = cgroups.Cgroups(state.name)
    groups.kill()
    clean = groups.remove()
    shutil.rmtree(state, ignore_errors=True)
    return clean and not state.exists()


def sweep():
    """Removes what an earlier `alone` left that was killed."""
    for state in FOLDERS.glob("sluice-alone-*"):
        if not (state / "lock").exists():
            continue  # it begins
        with open(state / "lock", "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # it runs
            leave_nothing(state)


def alone(command):
    """Runs COMMAND in namespaces of its own; returns its exit status and leaves nothing."""
    sweep()
    state = pathlib.Path(tempfile.mkdtemp(prefix="sluice-alone-", dir=FOLDERS))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with open(state / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command, environment = new_spaces(state, command)
        try:
            return subprocess.call(["setpriv", "--pdeathsig", "KILL", *command], env=environment)
        except KeyboardInterrupt:
            return 130
        finally:
            if not leave_nothing(state):
                print(f"cluster: something of {state} is left", file=sys.stderr)


def keep(state):
    """Makes namespaces that outlive this call, for the cluster in `state`."""
    state.mkdir(parents=True)
    command, environment = new_spaces(state, ["sleep", "infinity"])
    keeper = subprocess.Popen(command, env=environment, start_new_session=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    children = pathlib.Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children")
    while not (first := children.read_text().split()):
        if keeper.poll() is not None:
            sys.exit("cluster: no namespaces can be made here; root is needed")
        time.sleep(0.01)
    (state / "first").write_text(f"{first[0]} {started(int(first[0]))}")


def started(pid):
    """Returns when a process started, in ticks since boot, or None if there is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def first_process(state):
    """Returns the first process of a kept cluster's namespaces, or None if they are gone."""
    try:
        pid, since = (state / "first").read_text().split()
    except (OSError, ValueError):
        return None
    return int(pid) if started(int(pid)) == since else None


def enter(state, command):
    """Becomes COMMAND in a kept cluster's namespaces. Does not return."""
    first = first_process(state)
    if first is None:
        sys.exit(f"cluster: none runs in {state}; `tools/cluster up nodes 2` starts one")
    os.environ[INSIDE] = str(state)
    spaces = ["nsenter", f"--target={first}", "--net", "--mount", "--pid", f"--wdns={os.getcwd()}"]
    os.execvp("nsenter", [*spaces, "--", *command])


def drop(state):
    """Ends a kept cluster, and removes what it left, also if it was killed. Returns as above."""
    first = first_process(state)
    if first is not None:
        os.kill(first, signal.SIGKILL)
    return leave_nothing(state)
