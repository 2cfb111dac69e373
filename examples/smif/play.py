#!/usr/bin/env python3
"""SMIF on two types of CPU devices, live: ./examples/smif/run

A strong device (big) is dear, a weak one (little) is cheap, by 1.85 : 1 as a V100 and a T4. A function
is measured on both and starts on the weak one. Single images come, more of them and then fewer, with
requests of eight images all the time. `smif` adds the strong device while the weak one is too
little, and sends requests to both by their measured rates, the large ones to the strong one. It is
scenarios/smif.yaml in small.
"""
import argparse, http.client, json, pathlib, shutil, socket, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DEVICES = "big=1x740m,little=1x400m"
PRICES = {"big": 2.48, "little": 0.53}  # of an hour, as a V100's and a T4's
RATES = (40, 240, 120, 10)  # of single images a second, in the four quarters of the load
LARGE, LARGE_RATE = 8, 4  # images, and requests a second
LITTLE_ANSWERS = 160  # single images a second, of which these rates are meant; a faster one gets more


def build():
    print("== build", flush=True)
    script = ". tools/build_env; cmake --preset release && cmake --build --preset release -j " \
             '"$(jobs_for_build)" --target sluice sluice-runtime'
    (ROOT / "build").mkdir(exist_ok=True)
    with open(ROOT / "build/example.log", "w") as log:
        done = subprocess.run(["bash", "-c", script], cwd=ROOT, stdout=log, stderr=log)
    if done.returncode != 0:
        sys.exit("the build failed: see build/example.log")
    return ROOT / "build/release"


class Platform:
    """`sluice up` with two types of devices, and what is asked of it."""

    def __init__(self, built, folder):
        self.built, self.data, self.log = built, folder / "data", folder / "log"
        prices = [word for kind, price in PRICES.items() for word in ("--price", f"{kind}={price}")]
        with open(self.log, "w") as log:
            self.up = subprocess.Popen(
                [built / "sluice", "--data", self.data, "up", "--policy", "smif", "--devices", DEVICES, *prices,
                 "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        while len(self.get("devices")) < 2:
            if self.up.poll() is not None:
                sys.exit(self.log.read_text())
            time.sleep(0.1)

    def command(self, *words):
        return [self.built / "sluice", "--data", self.data, *map(str, words)]

    def show(self, *words):
        print("\n$ sluice " + " ".join(map(str, words)), flush=True)
        done = subprocess.run(self.command(*words), text=True, capture_output=True)
        print(done.stdout.strip(), flush=True)
        if done.returncode != 0:
            sys.exit(done.stderr)

    def get(self, what):
        done = subprocess.run(self.command("-o", "json", "get", what), text=True, capture_output=True)
        return json.loads(done.stdout) if done.returncode == 0 else []

    def ask(self, name, path):
        """What one of the platform's processes answers at its socket."""
        connection = http.client.HTTPConnection("platform")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.data / "run" / f"{name}.sock"))
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())

    def down(self):
        subprocess.run(self.command("down"), capture_output=True)
        self.up.wait()


class Instances:
    """What each instance has done, also of those that have ended meanwhile."""

    def __init__(self, platform):
        self.platform, self.latest = platform, {}
        self.types = {d["id"]: d["type"] for d in platform.get("devices")}
        self.begin = self.poll() or {k: dict(v) for k, v in self.latest.items()}

    def poll(self):
        used = {i["id"]: (self.types[i["parts"][0]["device"]], i["used_ms"] / 1000) for i in self.platform.get("instances")}
        for f in self.platform.ask("gateway", "/v1/stats")["functions"]:
            for i in f["instances"]:
                if i["id"] in used:
                    kind, seconds = used[i["id"]]
                    self.latest[i["id"]] = {"type": kind, "used": seconds, "requests": i["answered"], "images": i["inferences"]}

    def by_type(self):
        sums = {kind: {"requests": 0, "images": 0, "used": 0.0} for kind in self.types.values()}
        for name, now in self.latest.items():
            for what, total in sums[now["type"]].items():
                sums[now["type"]][what] = total + now[what] - self.begin.get(name, {}).get(what, 0)
        return sums


def scale_of_load(platform):
    """By what was measured, so that the weak device is too little on any machine."""
    answers = min(1e6 / p["latency_p50_us"] for profile in platform.get("profiles") for p in profile["points"]
                  if p["batch"] == 1 and p["quota"] == 1000)
    return max(1, answers / LITTLE_ANSWERS)


def play(platform, folder, seconds):
    scale = scale_of_load(platform)
    rates, large_rate = [round(scale * rate) for rate in RATES], scale * LARGE_RATE
    print(f"\n== {seconds:.0f} s: single images at {', '.join(map(str, rates))} a second; {large_rate:.1f} requests of {LARGE} "
          "a second", flush=True)
    (folder / "rates").write_text("".join(f"{rate}\n" for rate in rates))
    load = ["-o", "json", "load", "thumbnails", "--duration", f"{seconds}s", "--max-failures", "100"]
    loads = [subprocess.Popen(platform.command(*load, *more), text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for more in (
        ["--rates", folder / "rates", "--step", f"{seconds / len(RATES)}s"], ["--batch", LARGE, "--rate", large_rate, "--seed", 2])]
    instances = Instances(platform)
    while any(load.poll() is None for load in loads):
        instances.poll()
        time.sleep(0.5)
    instances.poll()
    return [json.loads(load.communicate()[0])[0] for load in loads], instances.by_type()


def table(loads, types, report):
    images = sum(t["images"] for t in types.values())
    print(f"\n{'TYPE':<8}{'IMAGES':>8}{'SHARE':>7}{'WEIGHT':>9}{'SINGLE':>8}{'LARGE':>7}")
    rows = []
    for name, t in types.items():
        large = (t["images"] - t["requests"]) // (LARGE - 1)
        rows.append({"type": name, "images": t["images"], "share": t["images"] / max(images, 1),
                     "weight": t["images"] / t["used"] if t["used"] > 0 else 0.0, "single": t["requests"] - large, "large": large})
        r = rows[-1]
        print(f"{name:<8}{r['images']:>8}{100 * r['share']:>6.0f}%{r['weight']:>7.0f}/s{r['single']:>8}{r['large']:>7}")
    print("WEIGHT: images per second of the device's time\n")
    for what, load in zip(("single", "large"), loads):
        print(f"{what} requests: {load['requests']}, late, refused or failed {load['violations_pct']:.1f} %, p95 {load['p95_ms']:.0f} ms")
    print(f"cost: {report['cost']:.4f}, {report['starts']} starts", flush=True)
    return rows


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--seconds", type=float, default=60, help="of load")
    words.add_argument("--built", type=pathlib.Path, help="a folder that was built already")
    words.add_argument("--report", type=pathlib.Path, help="write the figures there, as JSON")
    flags = words.parse_args()
    built = (flags.built or build()).resolve()
    subprocess.run([ROOT / "tools/make_models", "--only", "thumbnails"], check=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-smif-"))
    folder.chmod(0o755)  # instances have users of their own
    platform = Platform(built, folder)
    try:
        platform.show("get", "devices")
        platform.show("profile", "--batches", "1,8", "--quotas", "100", "-f", HERE / "thumbnails.yaml")
        platform.show("apply", "--wait", "-f", HERE / "thumbnails.yaml")
        loads, types = play(platform, folder, flags.seconds)
        platform.show("get", "decisions", "thumbnails")
        report = platform.ask("api", "/v1/report")["functions"][0]
        rows = table(loads, types, report)
        if flags.report:
            flags.report.write_text(json.dumps({"types": rows, "loads": loads, "cost": report["cost"]}, indent=1))
    finally:
        platform.down()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
