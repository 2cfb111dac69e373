#!/usr/bin/python3
"""hostile_user.py REPORT SECONDS SEED API_PORT NAMES [--own TEXT] [--busy]

A local user who attacks a platform: reads, writes and links every path that the file NAMES lists, plants files
and FIFOs in every folder, signals the platform's processes, and floods its sockets and its API with silence, noise
and bodies without a token. What it could read, write, make or signal is written to REPORT, as JSON. A path with the
text of --own is its own. --busy: it only uses the processor, for as long.
"""
import argparse
import json
import os
import random
import socket
import stat
import sys
import time

# The platform's own programs, which every instance runs; the addresses at which it serves.
PUBLIC = ("/programs/", "/api.address", "/gateway.address")
OPEN = 200  # connections that are kept


class Attacker:
    def __init__(self, seconds, seed, port, names, own):
        self.end = time.monotonic() + seconds
        self.random = random.Random(seed)
        self.port, self.own = port, own
        self.names = names  # written anew now and then, by one who may list all
        self.read, self.written, self.made, self.signalled = set(), set(), set(), set()
        self.tried = self.connections = self.sent = 0
        self.open = []

    def is_own(self, path):
        return bool(self.own) and self.own in path

    def paths(self):
        with open(self.names) as file:
            found = [line for line in file.read().splitlines() if line]
        self.random.shuffle(found)
        return found

    def attack(self):
        turns = [self.open_paths, self.plant, self.talk, self.flood_api, self.signal_all, self.look_into_processes]
        turn = 0
        while not self.late():
            turns[turn % len(turns)]()
            turn += 1

    def late(self):
        return time.monotonic() >= self.end

    # ---- files -------------------------------------------------------------------------------

    def open_paths(self):
        for path in self.paths()[:300]:
            if self.late():
                return
            self.tried += 1
            for flags, found in ((os.O_RDONLY, self.read), (os.O_WRONLY | os.O_APPEND, self.written)):
                try:
                    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)
                except OSError:
                    continue
                if stat.S_ISREG(os.fstat(fd).st_mode) and not self.is_own(path):
                    public = flags == os.O_RDONLY and any(p in path for p in PUBLIC)
                    if not public:
                        found.add(path)
                os.close(fd)

    def plant(self):
        """In every folder, what the platform might trust; and over its files, links to others."""
        everything = self.paths()
        folders = {os.path.dirname(p) for p in everything}
        targets = everything[:20] + ["/etc/shadow"]
        for folder in self.random.sample(sorted(folders), min(40, len(folders))):
            if self.late():
                return
            if self.is_own(folder + "/"):
                continue
            name = self.random.choice(["finished", "model.pt", "module.pt.new", "checkpoint-9", "manifest", "x"])
            path = os.path.join(folder, name)
            target = self.random.choice(targets)
            for make in (
                lambda: os.mkdir(path),
                lambda: os.mkfifo(path),
                lambda: os.symlink(target, path),
                lambda: os.link(target, path, follow_symlinks=False),
                lambda: os.rename(target, path),
            ):
                self.tried += 1
                try:
                    make()
                except OSError:
                    continue
                self.made.add(path)

    # ---- sockets -----------------------------------------------------------------------------

    def noise(self):
        kind = self.random.randrange(6)
        if kind == 0:
            return b""  # silence
        if kind == 1:
            return self.random.randbytes(self.random.randrange(1, 4096))
        if kind == 2:
            return b'{"hello": {"job": "default/ledger-1", "key": "' + b"0" * 32 + b'", "worker": "w", "version": 2'
        if kind == 3:
            return b'{"hello": {"job": "default/ledger-1", "key": "0", "worker": "w", "version": 2}}\n'
        if kind == 4:
            return b"[" * 100_000
        return b"GET /v1/functions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n" + b" " * 4096

    def keep(self, sock):
        self.connections += 1
        self.open.append(sock)
        while len(self.open) > OPEN:
            self.open.pop(self.random.randrange(len(self.open))).close()

    def connect(self, family, kind, address, data):
        sock = socket.socket(family, kind)
        sock.settimeout(0.02)
        try:
            sock.connect(address)
        except OSError:  # closed to this user, or full
            sock.close()
            return
        sock.setblocking(False)
        self.keep(sock)
        try:
            self.sent += sock.send(data) if data else 0
        except OSError:
            pass

    def talk(self):
        for path in self.sockets():
            for _ in range(20):
                if self.late():
                    return
                kind = self.random.choice([socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
                self.connect(socket.AF_UNIX, kind, path, self.noise())

    def sockets(self):
        return [p for p in self.paths() if p.endswith("sock")]

    def flood_api(self):
        for _ in range(50):
            if self.late():
                return
            head = self.random.choice([
                b"GET /v1/functions HTTP/1.1\r\nHost: x\r\n\r\n",
                b"POST /v1/functions HTTP/1.1\r\nHost: x\r\nContent-Length: 4194304\r\n\r\n" + b" " * 65536,
                b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"0" * 64 + b"\r\n\r\n",
                b"POST /v1/functions HTTP/1.1\r\nHost:",
            ])
            self.connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", self.port), head)
        for sock in self.open:
            try:
                self.sent += sock.send(b" " * 65536)
            except OSError:
                pass

    # ---- processes ---------------------------------------------------------------------------

    def others(self):
        me = os.getuid()
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                if os.stat("/proc/" + name).st_uid != me:
                    yield int(name)
            except OSError:
                continue

    def signal_all(self):
        for pid in self.others():
            self.tried += 1
            try:
                os.kill(pid, 0)  # whether it may
            except OSError:
                continue
            self.signalled.add(pid)

    def look_into_processes(self):
        for pid in self.others():
            for what in ("environ", "mem", "maps", "fd", "cwd"):
                path = f"/proc/{pid}/{what}"
                try:
                    if what == "fd":
                        os.listdir(path)
                    elif what == "cwd":
                        os.readlink(path)
                    else:
                        os.close(os.open(path, os.O_RDONLY))
                except OSError:
                    continue
                # Some are readable by all until they are asked for.
                if what in ("fd", "cwd") or self.content(path):
                    self.read.add(path)

    @staticmethod
    def content(path):
        try:
            with open(path, "rb") as file:
                return file.read(1)
        except OSError:
            return b""

    def report(self):
        return {"read": sorted(self.read), "written": sorted(self.written), "made": sorted(self.made),
                "signalled": sorted(self.signalled), "tried": self.tried, "connections": self.connections,
                "sent": self.sent}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report")
    parser.add_argument("seconds", type=float)
    parser.add_argument("seed", type=int)
    parser.add_argument("api_port", type=int)
    parser.add_argument("names")
    parser.add_argument("--own", default="")
    parser.add_argument("--busy", action="store_true")
    with_ = parser.parse_args()
    attacker = Attacker(with_.seconds, with_.seed, with_.api_port, with_.names, with_.own)
    if with_.busy:
        while not attacker.late():
            pass
    else:
        attacker.attack()
    with open(with_.report + ".new", "w") as file:
        json.dump(attacker.report(), file)
    os.rename(with_.report + ".new", with_.report)


if __name__ == "__main__":
    main()
