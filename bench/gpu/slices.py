"""Slices of the machine's first GPU for programs that a script starts: build/core/gpu_slices, and the environment that
puts a program under one of them. On the emulated GPU with emulated=True, which shows that scripts run and measures nothing.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CORE = pathlib.Path(os.environ.get("SLUICE_CORE", TOP / "build/core")).resolve()  # another build folder: a test
WHOLE = 1000


class Slices:
    def __init__(self, arbiter="shares", emulated=False):
        self.folder = tempfile.mkdtemp(prefix="sluice-slices-")
        self.variables = {}
        command = [CORE / "gpu_slices", self.folder, "--arbiter", arbiter]
        if emulated:
            self.variables = {"SLUICE_EMULATED_GPU": self.folder + "/gpu", "LD_LIBRARY_PATH": str(CORE / "emulated")}
            command += ["--nvml", CORE / "emulated/libnvidia-ml.so.1"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | self.variables)
        self.uuid, self.memory = self.ask("gpu")

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        state, *answer = self.process.stdout.readline().split() or ["error", "it has ended"]
        if state != "ok":
            raise RuntimeError(f"gpu_slices: {' '.join(map(str, words))}: {' '.join(answer)}")
        return answer

    def put(self, number, request, limit, sm=WHOLE, mib=0, slo_ms=0):
        """Makes the slice, or changes it; shares in permille. slo_ms: the objective of its iterations; 0: none."""
        self.ask("slice", number, request, limit, sm, mib, slo_ms)

    def state(self, number):
        return dict(zip(("busy_ns", "processes", "held", "holders"), map(int, self.ask("state", number))))

    def environment(self, number):
        """What a program of the slice has in its environment, as `sluice run` would set it."""
        return self.variables | {
            "LD_PRELOAD": f"{CORE / 'libsluice_cuda.so'}:{CORE / 'libsluice_nvml.so'}",
            "SLUICE_PERMIT_SOCKET": f"{self.folder}/{number}.sock",
            "SLUICE_VISIBLE_DEVICES": self.uuid,
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)
