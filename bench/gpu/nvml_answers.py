#!/usr/bin/env python3
"""What the real libnvidia-ml exports beyond src/nvml/entry_points.inc, and what nvidia-smi shows behind libsluice_nvml.so
to a program under a slice of 4 GiB: its slice's memory, and no process of others. Ends with 1 where it shows the device's.

    bench/gpu/nvml_answers.py LIBNVIDIA-ML
"""
import os
import re
import subprocess
import sys

from slices import TOP, Slices

MIB = 4096


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if " T " in line and "nvml" in line}


def main():
    library = sys.argv[1]
    known = set(re.findall(r"SLUICE_\w+\((nvml\w+)\)", (TOP / "src/nvml/entry_points.inc").read_text()))
    theirs = exported(library)
    print(f"{library} exports {len(theirs)}, we {len(known)}; ours alone: {len(known - theirs)}; theirs alone:")
    print("  " + " ".join(sorted(theirs - known)))
    query = ["nvidia-smi", "--query-gpu=uuid,memory.total,memory.used", "--format=csv,noheader,nounits"]
    with Slices() as slices:
        slices.put(1, 200, 200, mib=MIB)
        environment = os.environ | slices.environment(1)
        for command in (["nvidia-smi"], query):
            print(f"under a slice of {MIB} MiB: {' '.join(command)}", flush=True)
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
            print(done.stdout)
        shown = done.stdout.split(",")
        good = len(shown) == 3 and shown[0] == slices.uuid and int(shown[1]) == MIB
    print("ok" if good else "FAIL", " nvidia-smi shows the slice")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
