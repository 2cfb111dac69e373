#!/usr/bin/env python3
"""The GPU half of Sluice on a machine without a GPU: ./examples/emulated_gpu/run [--policy NAME]

Four emulated GPUs of two types. Three functions are CUDA servers that know nothing of Sluice; each
replays the launches that ResNet-50, BERT or GPT-2 made on an H200, ten times as slow, so that two
cores can play their hosts. Their times are measured; then a bursty load comes, the policy resizes
them while they answer, and one GPU fails. What each used is read from the GPUs' own log. What a GPU
would do is not measured here; what Sluice does with one is shown.
"""
import argparse, json, os, pathlib, re, shutil, subprocess, sys, tempfile, time, urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLOWER = 10
# Name: its trace, its objective, and the mean rate that it is asked at.
FUNCTIONS = {"resnet50": ("resnet50", "250ms", 7), "bert": ("bert-graph", "150ms", 14),
             "gpt2": ("gpt2-graph", "150ms", 14)}
TARGETS = ("sluice sluice-runtime sluice_cuda sluice_nvml emulated_cuda emulated_nvml replay_server "
           "emulated_gpus").split()
GPUS = "devices=4 small=2 small_sms=66 memory_mib=16384"
FAILS = "cuda1"  # the GPU that fails, after two thirds of the load


def build():
    print("== build", flush=True)
    script = ". tools/build_env; cmake --preset release && cmake --build --preset release -j " \
             '"$(jobs_for_build)" --target ' + " ".join(TARGETS)
    (ROOT / "build").mkdir(exist_ok=True)
    with open(ROOT / "build/example.log", "w") as log:
        done = subprocess.run(["bash", "-c", script], cwd=ROOT, stdout=log, stderr=log)
    if done.returncode != 0:
        sys.exit("the build failed: see build/example.log")
    return ROOT / "build/release"


class Platform:
    """`sluice up` with emulated GPUs, and what is asked of it."""

    def __init__(self, built, folder, policy):
        self.built, self.folder, self.data = built, folder, folder / "data"
        self.machine = folder / "gpus"
        os.environ["SLUICE_EMULATED_GPU"] = str(self.machine)
        os.environ["SLUICE_EMULATED_GPU_SPEC"] = GPUS
        self.log = open(folder / "log", "w")
        self.up = subprocess.Popen(
            [built / "sluice", "--data", self.data, "up", "--nvml",
             built / "emulated/libnvidia-ml.so.1", "--policy", policy, "--listen", "127.0.0.1:0",
             "--api", "127.0.0.1:0"], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        while not self.get("devices"):
            if self.up.poll() is not None:
                sys.exit((folder / "log").read_text())
            time.sleep(0.1)

    def sluice(self, *words, **more):
        return subprocess.run([self.built / "sluice", "--data", self.data, *map(str, words)],
                              text=True, capture_output=True, **more)

    def show(self, *words, keep=lambda line: True):
        print("\n$ sluice " + " ".join(words), flush=True)
        done = self.sluice(*words)
        print("\n".join(filter(keep, (done.stdout + done.stderr).splitlines())), flush=True)
        if done.returncode != 0:
            sys.exit(done.returncode)

    def get(self, what):
        done = self.sluice("-o", "json", "get", what)
        return json.loads(done.stdout) if done.returncode == 0 else []

    def report(self):
        """What each function had and did, from the API."""
        api = re.search(r"API on (\S+)", (self.folder / "log").read_text())[1]
        request = urllib.request.Request(api + "/v1/report", headers={
            "Authorization": "Bearer " + (self.data / "token").read_text().strip()})
        return {f["name"]: f for f in json.load(urllib.request.urlopen(request))["functions"]}

    def down(self):
        self.sluice("down")
        self.up.wait()


def function_files(platform, slices):
    driver = platform.folder / "driver"
    driver.mkdir()
    shutil.copy(platform.built / "emulated/libcuda.so.1", driver)
    files = platform.folder / "functions"
    files.mkdir()
    for name, (trace, objective, _) in FUNCTIONS.items():
        (files / f"{name}.yaml").write_text(f"""\
apiVersion: sluice.dev/v1alpha1
kind: InferenceFunction
metadata: {{name: {name}}}
spec:
  device: cuda
  slo: {{latency: {objective}}}
  maxReplicas: 8{slices.get(name, "")}
  containerConcurrency: 1
  server:
    command: [replay_server]
    args: [{platform.machine}, {trace}, "{SLOWER}"]
    files: [{platform.built}/replay_server, {platform.built}/launches/launches/{trace}]
    env: {{LD_LIBRARY_PATH: {driver}}}
    readiness: /healthz
""")
    (platform.folder / "body").write_text("{}")
    return files


def cpu_seconds():
    words = open("/proc/stat").readline().split()[1:]
    return (sum(map(int, words)) - int(words[3]) - int(words[4])) / os.sysconf("SC_CLK_TCK")


def show_use(platform, seconds):
    """What each instance may use of its GPU, and what the GPU says that it used."""
    done = subprocess.run([platform.built / "emulated_gpus", platform.machine, "use", str(seconds)],
                          text=True, capture_output=True, check=True)
    used = {}
    for line in done.stdout.splitlines():
        device, pid, percent = line.split()
        used["cuda" + device, int(pid)] = float(percent)
    print(f"\n{'INSTANCE':<18}{'DEVICE':<8}{'REQUEST':>8}{'LIMIT':>7}{'USED':>7}")
    worst, most = -100, 0
    for i in sorted(platform.get("instances"), key=lambda i: (i["device"], i["id"])):
        if i["state"] != "ready":
            continue
        request, limit = (i["slice"][k] / 10 for k in ("request", "limit"))
        use = used.get((i["device"], i["pid"]), 0)
        worst, most = max(worst, use - limit), max(most, use)
        print(f"{i['id']:<18}{i['device']:<8}{request:7.0f}%{limit:6.0f}%{use:6.1f}%")
    return worst, most


def rates_of(seconds):
    """Relative rates, and how long each lasts."""
    rates = [float(line) for line in (ROOT / "scenarios/bursty.txt").read_text().splitlines()
             if line and not line.startswith("#")]
    step = max(seconds / len(rates), 0.25)
    return rates[:max(int(seconds / step), 1)], step


def play(platform, seconds):
    rates, step = rates_of(seconds)
    (platform.folder / "rates").write_text("\n".join(map(str, rates)) + "\n")
    print(f"\n== a bursty load of {seconds:.0f} s; {FAILS} fails after {seconds * 2 / 3:.0f} s")
    loads = {name: subprocess.Popen(
        [platform.built / "sluice", "--data", platform.data, "-o", "json", "load", name, "--rates",
         platform.folder / "rates", "--step", f"{step}s", "--scale", str(rate),
         "--duration", f"{seconds}s", "--body", platform.folder / "body"], text=True, stdout=subprocess.PIPE)
        for name, (_, _, rate) in FUNCTIONS.items()}
    begin, cpu = time.time(), cpu_seconds()
    looks = [show_use(platform, seconds / 3)]
    looks.append(show_use(platform, max(seconds * 2 / 3 - (time.time() - begin), 1)))
    print(f"\n== {FAILS} fails", flush=True)
    subprocess.run([platform.built / "emulated_gpus", platform.machine, "fail", FAILS[4:]],
                   check=True)
    results = {name: json.loads(load.communicate()[0]) for name, load in loads.items()}
    return results, [max(column) for column in zip(*looks)], (cpu_seconds() - cpu) / (time.time() - begin)


def table(report, results, policy):
    print(f"\n== under {policy}\n{'FUNCTION':<12}{'REQUESTS':>9}{'LATE':>7}{'P95':>8}{'STARTS':>8}"
          f"{'RESIZES':>9}{'GPU-SECONDS':>13}{'COST':>9}")
    rows = []
    for name in FUNCTIONS:
        load, had = results[name][0], report[f"default/{name}"]
        row = {"name": name, "requests": load["requests"], "late_percent": load["violations_pct"],
               "p95_ms": load["p95_ms"], "starts": had["starts"], "resizes": had["resizes"],
               "gpu_seconds": had["slice_seconds"], "cost": had["cost"]}
        rows.append(row)
        print(f"{name:<12}{row['requests']:>9}{row['late_percent']:>6.1f}%{row['p95_ms']:>6.0f}ms"
              f"{row['starts']:>8}{row['resizes']:>9}{row['gpu_seconds']:>13.1f}{row['cost']:>9.4f}")
    return rows


def left_on_failed(platform, patience_s):
    """The instances that serve on the GPU that has failed: each until another is ready in its place."""
    end = time.monotonic() + patience_s
    while left := [i for i in platform.get("instances") if i["device"] == FAILS and i["state"] == "ready"]:
        if time.monotonic() > end:
            break
        time.sleep(0.2)
    return left


def run(built, policy, seconds, slices):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-gpus-"))
    folder.chmod(0o755)  # instances have users of their own
    platform = Platform(built, folder, policy)
    try:
        platform.show("get", "devices", keep=lambda line: "cpu" not in line)
        files = function_files(platform, slices)
        platform.show("profile", "-f", str(files), "--body", str(folder / "body"),
                      keep=lambda line: "left" not in line)
        platform.show("apply", "--wait", "-f", str(files))
        results, (worst, most), busy = play(platform, seconds)
        platform.show("get", "decisions", keep=lambda line: "created" not in line)
        left = left_on_failed(platform, patience_s=60)
        arbiters = sorted({i["arbiter"] for i in platform.get("instances")})
        figures = {"policy": policy, "arbiters": arbiters, "left_on_failed_gpu": len(left), "host_percent": 100 * busy / os.cpu_count(),
                   "over_limit_percent": worst, "most_used_percent": most,
                   "functions": table(platform.report(), results, policy)}
        print(f"\nby the GPUs' log, over a limit: {max(worst, 0):.1f} % of a GPU at most; the host was "
              f"{figures['host_percent']:.0f} % busy", flush=True)
        return figures
    finally:
        platform.down()
        shutil.rmtree(folder, ignore_errors=True)


def fixed_slices(figures, seconds):
    """Slices that cost as much as the policy's did on average: whole instances of at most a GPU."""
    slices = {}
    for f in figures["functions"]:
        percent = max(round(100 * f["gpu_seconds"] / seconds), 5)
        instances = -(-percent // 100)
        slices[f["name"]] = (f"\n  minReplicas: {instances}\n  slice: {{quota: {{request: "
                             f"{round(percent / instances)}%}}}}")
    return slices


def main():
    words = argparse.ArgumentParser(description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--seconds", type=float, default=60, help="of load")
    words.add_argument("--policy", default="has-gpu")
    words.add_argument("--compare", action="store_true",
                       help="then also fixed at the policy's mean cost, and exclusive")
    words.add_argument("--built", type=pathlib.Path, help="a folder that was built already")
    words.add_argument("--report", type=pathlib.Path, help="write the figures there, as JSON")
    flags = words.parse_args()
    built = (flags.built or build()).resolve()
    thirds = {name: "\n  slice: {quota: {request: 30%}}" for name in FUNCTIONS}
    all_figures = [run(built, flags.policy, flags.seconds,
                       thirds if flags.policy == "fixed" else {})]
    if flags.compare:
        slices = fixed_slices(all_figures[0], flags.seconds)
        all_figures.append(run(built, "fixed", flags.seconds, slices))
        all_figures.append(run(built, "exclusive", flags.seconds, {}))
        print(f"\n{'POLICY':<12}{'LATE':>7}{'GPU-SECONDS':>13}")
        for figures in all_figures:
            rows = figures["functions"]
            late = sum(r["late_percent"] * r["requests"] for r in rows)
            print(f"{figures['policy']:<12}{late / sum(r['requests'] for r in rows):>6.1f}%"
                  f"{sum(r['gpu_seconds'] for r in rows):>13.1f}")
    if flags.report:
        flags.report.write_text(json.dumps(all_figures, indent=1))


if __name__ == "__main__":
    main()
