"""The template of a program function with `server.imports`: it imports its modules once, and every
instance is a fork of it. The node daemon runs it (src/node/python_templates.h), as

    PYTHON -I -u sluice_template.py MODULE...

under a uid without privileges, with a SOCK_SEQPACKET socket to the daemon as descriptor 3. The
messages are those of src/wire/zygote.h. The standard library alone, Python 3.9 and later.
"""
import atexit
import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
import types

VERSION = 1
STARTED, READY, FAILED = 16, 17, 18  # the kinds of message that it sends
INVALID, INTERNAL = 0, 7  # of a failure: the modules' fault, or the machine's
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
CORPSE_STAYS = 2  # seconds for which the daemon can see how a fork has ended


def prctl(option, value):
    if ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def ends_with_the_daemon():
    """Import may never end. Forks of its uid cannot trace it; where that is the daemon's own uid, it
    would protect nothing, and hide the template's variables from `sluice down`."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.stat(f"/proc/{os.getppid()}").st_uid != os.getuid():
        prctl(PR_SET_DUMPABLE, 0)


def fault_of_imports(names):
    """Imports the modules. Returns why one of them cannot be imported, or None."""
    if sys.version_info < (3, 9):
        return f"Python 3.9 or later is needed; {sys.executable} is {sys.version.split()[0]}"
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as fault:
            last = traceback.format_exception_only(type(fault), fault)[-1]
            return f"{name}: {last.strip()}"
    return None


def send_failed(daemon, kind, why):
    daemon.send(struct.pack("=IIII1024s", VERSION, FAILED, kind, 0, why.encode(errors="replace")[:1023]))


def reap(died):
    """`died`: since when each fork is dead, or None, by its pidfd."""
    now = time.monotonic()
    for pidfd, since in list(died.items()):
        if os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            continue
        if since is None:
            died[pidfd] = now
        elif now - since >= CORPSE_STAYS:
            os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
            os.close(pidfd)
            del died[pidfd]


def fork_for(daemon):
    """Forks once for each message of the daemon's, until its end closes. Returns in each fork, with
    the message's descriptors; of the template's own it has no others."""
    died = {}
    while True:
        poll = select.poll()
        poll.register(daemon, select.POLLIN)
        for pidfd, since in died.items():
            if since is None:
                poll.register(pidfd, select.POLLIN)
        corpses = any(since is not None for since in died.values())
        ready = [fd for fd, _ in poll.poll(CORPSE_STAYS * 1000 if corpses else None)]
        reap(died)
        if daemon.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(daemon, 4096, 8, socket.MSG_CMSG_CLOEXEC)
        if not message:
            os._exit(0)
        try:
            pid = os.fork()
        except OSError as fault:
            send_failed(daemon, INTERNAL, f"fork: {fault.strerror}")
            pid = None
        if pid == 0:
            daemon.close()
            for pidfd in died:
                os.close(pidfd)
            return descriptors
        for descriptor in descriptors:
            os.close(descriptor)
        if pid is not None:
            pidfd = os.pidfd_open(pid)  # only reap() reaps, so the pid cannot be another's yet
            died[pidfd] = None
            socket.send_fds(daemon, [struct.pack("=IIiI", VERSION, STARTED, pid, 0)], [pidfd])


def wait_for_go(control, log):
    """Returns once the daemon has put this process into its cgroup."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    for descriptor, place in ((null, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, place)
    os.close(null)
    os.close(log)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if not os.read(control, 4096):
        os._exit(1)  # the daemon is gone
    os.close(control)


def take_plan(plan):
    """Takes variables, folder and words, as if the interpreter had been started with them. Returns
    the script."""
    folder, count, *rest = os.pread(plan, os.fstat(plan).st_size, 0)[:-1].split(b"\0")
    os.close(plan)
    os.environ.clear()
    for variable in rest[int(count):]:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value  # also for C code, by putenv()
    os.chdir(folder)
    sys.argv = [os.fsdecode(word) for word in rest[:int(count)]]
    path = os.environ.get("PYTHONPATH")
    sys.path[:0] = [os.path.dirname(os.path.realpath(sys.argv[0]))] + (path.split(":") if path else [])
    return sys.argv[0]


def differ_from_others():
    """What modules have set up for one process. `random` does so itself; PyTorch's generator begins
    with the same seed in every process, so forks are no exception."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    torch = sys.modules.get("torch")
    if torch is not None:  # it has counted the template's cores
        stated = os.environ.get("OMP_NUM_THREADS", "")
        cores = int(stated) if stated.isdecimal() and int(stated) > 0 else len(os.sched_getaffinity(0))
        if torch.get_num_threads() != cores:
            torch.set_num_threads(cores)


def main_module(script):
    """Returns the script's code, and a new module `__main__` for it."""
    main = types.ModuleType("__main__")
    main.__file__ = os.path.abspath(script)
    sys.modules["__main__"] = main
    with open(script, "rb") as file:
        return compile(file.read(), main.__file__, "exec", dont_inherit=True), main


def run(code, main):
    """Runs the script, and then what runs at an interpreter's exit, but for the end of every object:
    a fork would copy each page of its template's to free what lies there. Returns the exit code."""
    status = 0
    try:
        exec(code, main.__dict__)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if status != end.code and end.code is not None:
            print(end.code, file=sys.stderr)
    except BaseException as fault:
        fault = fault.with_traceback(fault.__traceback__.tb_next)  # without this function
        sys.excepthook(type(fault), fault, fault.__traceback__)
        status = 1
    threading._shutdown()  # waits for threads that are no daemons
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status & 0xFF


begun = time.monotonic_ns()
daemon = socket.socket(fileno=3)
ends_with_the_daemon()
fault = fault_of_imports(sys.argv[1:])
if fault is not None:
    send_failed(daemon, INVALID, fault)
    os._exit(1)
gc.collect()
gc.freeze()  # so that a fork's collections do not copy the template's pages
daemon.send(struct.pack("=IIQ", VERSION, READY, time.monotonic_ns() - begun))
plan, control, log = fork_for(daemon)
wait_for_go(control, log)
code, main = main_module(take_plan(plan))
differ_from_others()
os._exit(run(code, main))
