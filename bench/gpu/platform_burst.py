#!/usr/bin/env python3
"""Two functions on one device of a platform, ResNet-50 and BERT in this machine's PyTorch, under has-gpu and under fixed; and
the same two servers without Sluice. Each way plays the same load, in which one peaks after the other.

    bench/gpu/platform_burst.py [--portable FOLDER] [--device cuda|cpu] [--kinds eager,graph] [--seconds N] [--load N] [--logs FILE]

FOLDER is what tools/portable has made (build/portable). Rates and objectives follow from each server's median time alone: a
peak is 60 % of what it reaches by that times --load, and a request is late after ten times the median, at least 20 ms. A
request that is refused or fails counts as late. `device s`: what the slices cost, in seconds of the whole device; the servers
without Sluice have it all. `used`: what of it the platform saw used. fixed gives each function half. On a CPU inputs are small, which shows that the script runs and
measures nothing.
"""
import argparse
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(TOP / "bench"))
from live_platform import Platform, Refused, until  # noqa: E402
from open_loop import Target, arrivals, one_by_one, play  # noqa: E402

FUNCTIONS = ("resnet50", "bert")
PARTS = ((0.15, 0.6, 0.15, 0.3), (0.15, 0.15, 0.6, 0.3))  # of what each reaches alone, in quarters of the time
POLICIES = ("has-gpu", "fixed")
BATCH = {"cuda": 4, "cpu": 1}
FILES = ("bench/gpu/serve_model.py", "bench/gpu/models.py", "python/sluice_serve.py")


class Servers:
    """The files that servers run from, and what an instance has in its environment."""

    def __init__(self, device):
        self.device = device
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-servers-")
        path = pathlib.Path(self.folder.name)
        path.chmod(0o755)
        for file in FILES:
            shutil.copy(TOP / file, path)
        # PyTorch asks for a home and a user's name.
        self.variables = {"HOME": "/tmp", "USER": "sluice", "OMP_NUM_THREADS": "1"}
        if device == "cuda" and "LD_LIBRARY_PATH" in os.environ:
            self.variables["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]

    def command(self, name, kind):
        graph = ["graph"] if kind == "graph" else []
        return [sys.executable, "serve_model.py", name, self.device, str(BATCH[self.device]), *graph]

    def file_of(self, name, kind, policy, slo_ms):
        """The function's file."""
        quoted = lambda words: "[" + ", ".join(f'"{w}"' for w in words) + "]"
        slice_ = "  slice: {quota: {request: 50%, limit: 50%}}\n" if policy == "fixed" else ""
        variables = ", ".join(f'{k}: "{v}"' for k, v in self.variables.items())
        return (f"apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\nmetadata: {{name: {name}}}\nspec:\n"
                f"  server:\n    command: {quoted(self.command(name, kind))}\n    files: [{self.folder.name}/]\n"
                f"    env: {{{variables}}}\n    readiness: /v2/health/ready\n"
                f"  device: {self.device}\n  memory: 4Gi\n  slo: {{latency: {slo_ms:.0f}ms}}\n  policy: {policy}\n{slice_}")


class Alone:
    """The servers of one kind as plain processes, for a `with`."""

    def __init__(self, servers, kind):
        self.processes, self.targets = [], []
        for name in FUNCTIONS:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            environment = os.environ | servers.variables | {"PORT": str(port), "PYTHONUNBUFFERED": "1"}
            self.processes.append(subprocess.Popen(servers.command(name, kind), cwd=servers.folder.name, env=environment))
            self.targets.append(Target(f"127.0.0.1:{port}", name))

    def __enter__(self):
        def answers(target):
            if any(p.poll() is not None for p in self.processes):
                raise Refused("a server has ended")
            return target.is_ready()
        for target in self.targets:
            until(lambda: answers(target), f"{target.path} to be ready")
            target.describe()
        return self

    def __exit__(self, *_):
        for each in self.processes:
            each.terminate()
        for each in self.processes:
            each.wait(timeout=30)


def is_idle(platform):
    return all(i["state"] == "gone" for i in platform.json("get", "instances"))


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


class Table:
    def __init__(self):
        names = "".join(f"{n + ': sent':>15}{'late %':>8}{'p50 ms':>8}{'p95':>8}" for n in FUNCTIONS)
        self.head = f"{'servers':8}{'way':10}{'late %':>8}{names}{'device s':>10}{'used':>7}{'resizes':>9}{'starts':>8}{'refused':>9}{'failed':>8}"
        self.rows = []

    def add(self, kind, way, answers, slos, account):
        row, sent, bad = "", 0, 0
        for found, slo in zip(answers, slos):
            late = sum(status != 200 or ms > slo for ms, status in found)
            good = [ms for ms, status in found if status == 200]
            row += f"{len(found):15}{100 * late / max(1, len(found)):8.1f}{quantile(good, 0.5):8.1f}{quantile(good, 0.95):8.1f}"
            sent, bad = sent + len(found), bad + late
        statuses = [status for found in answers for _, status in found]
        refused = sum(s in (429, 503) for s in statuses)
        failed = sum(s != 200 for s in statuses) - refused
        cost, used, resizes, starts = account
        if not self.rows:
            print(self.head)
        self.rows.append(f"{kind:8}{way:10}{100 * bad / max(1, sent):8.1f}{row}{cost:10.1f}{used:>7}{resizes:>9}{starts:>8}{refused:9}{failed:8}")
        print(self.rows[-1], flush=True)


class Case:
    """One kind of servers: their load and objectives, from what they do alone."""

    def __init__(self, servers, kind, o):
        self.servers, self.kind, self.seconds = servers, kind, o.seconds
        with Alone(servers, kind) as alone:
            for target in alone.targets:
                one_by_one(target, 10)
            self.medians = [statistics.median(one_by_one(t, 30)) for t in alone.targets]
            self.slos = [max(20, 10 * m) for m in self.medians]
            steps = [[(o.seconds / len(parts), o.load * part * 1000 / m) for part in parts] for parts, m in zip(PARTS, self.medians)]
            self.plans = [arrivals(each, seed) for seed, each in enumerate(steps, 1)]
            self.requests = [t.request for t in alone.targets]
            for name, m, slo, plan in zip(FUNCTIONS, self.medians, self.slos, self.plans):
                print(f"{kind} {name}: {m:.1f} ms alone, late after {slo:.0f} ms, {len(plan)} requests", flush=True)
            self.alone = play(alone.targets, self.plans)

    def profile(self, platform):
        for name, slo in zip(FUNCTIONS, self.slos):
            text = self.servers.file_of(name, self.kind, "has-gpu", slo)
            file = pathlib.Path(self.servers.folder.name).with_suffix(f".{name}.yaml")
            file.write_text(text)
            try:
                print(platform.sluice("profile", "-f", file, "--seconds", "0.3", "--budget", "12"), flush=True)
                until(lambda: is_idle(platform), "the measured instance to be gone")
            finally:
                file.unlink()

    def under(self, policy, platform, price):
        """The answers under a policy; and the cost, the use, and how many slices changed and instances started."""
        try:
            files = [self.servers.file_of(name, self.kind, policy, slo) for name, slo in zip(FUNCTIONS, self.slos)]
            platform.sluice("apply", "-f", "-", "--wait", text="---\n".join(files))
            address = (pathlib.Path(platform.data) / "run/gateway.address").read_text().strip()
            targets = [Target(address, name, request) for name, request in zip(FUNCTIONS, self.requests)]
            for target in targets:
                one_by_one(target, 1)  # more at this pace would be a burst
            before, began = platform.report(), time.monotonic()
            answers = play(targets, self.plans)
            time.sleep(1)  # accounts are of whole seconds
            after, took = platform.report(), time.monotonic() - began
            changed = lambda what: sum(after[n][what] - before[n][what] for n in FUNCTIONS)
            of_load = self.seconds / took
            used = f"{changed('used_seconds') * of_load:.1f}"
            return answers, (changed("cost") * 3600 / price * of_load, used, changed("resizes"), changed("starts"))
        except Refused:
            for name in FUNCTIONS:
                print(platform.call("describe", name).stdout[-3000:] + platform.call("logs", name).stdout[-2000:])
            raise
        finally:
            for name in FUNCTIONS:
                platform.call("delete", name)
            until(lambda: is_idle(platform), "instances to be gone")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--portable", type=pathlib.Path, default=TOP / "build/portable")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    p.add_argument("--kinds", type=lambda text: text.split(","))
    p.add_argument("--seconds", type=float, help="of a load; on a GPU 40, on a CPU 12")
    p.add_argument("--load", type=float, help="on a CPU, which has the load's senders and gateway too, 0.6; else 1")
    p.add_argument("--logs", type=pathlib.Path, help="a NAME.tar.gz for the platform's logs")
    o = p.parse_args()
    on_gpu = o.device == "cuda"
    o.kinds = o.kinds or (["eager", "graph"] if on_gpu else ["eager"])
    o.seconds = o.seconds or (40 if on_gpu else 12)
    o.load = o.load or (1 if on_gpu else 0.6)
    if not on_gpu and "graph" in o.kinds:
        sys.exit("a processor has no graphs")
    program = o.portable / "sluice"
    if not program.exists():
        print(f"{program} is missing: tools/portable makes it")
        sys.exit(77)
    servers, table, failed = Servers(o.device), Table(), []
    cases = [Case(servers, kind, o) for kind in o.kinds]
    for case in cases:
        table.add(case.kind, "no Sluice", case.alone, case.slos, (o.seconds, "-", "-", "-"))
    flags = [] if on_gpu else ["--nvml", "none"]
    with Platform("has-gpu", *flags, devices=1, program=program) as platform:
        try:
            device = until(lambda: platform.devices_of(o.device), f"a device of kind {o.device}", platform.log, patience=20)[0]
            print(platform.sluice("get", "devices"), platform.sluice("describe", "device", device["id"]), sep="\n", flush=True)
            for case in cases:
                try:
                    case.profile(platform)
                except Refused as fault:  # without a profile has-gpu adds instances, and that is worth seeing
                    failed.append(f"profile of {case.kind}: {fault}")
                for policy in POLICIES:
                    try:
                        answers, account = case.under(policy, platform, device["price_per_hour"])
                        table.add(case.kind, policy, answers, case.slos, account)
                    except Refused as fault:
                        failed.append(f"{case.kind} under {policy}: {fault}")
        finally:
            print((pathlib.Path(platform.data) / "logs/node.log").read_text()[-3000:])
            if o.logs:
                shutil.make_archive(str(o.logs).removesuffix(".tar.gz"), "gztar", platform.data, "logs")
    print("", table.head, *table.rows, sep="\n")
    for fault in failed:
        print(f"failed: {fault}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
