"""Ways to share a GPU, each measured by a process of the script's own, which prints what it found as JSON in its last line.
A table of ways has for each name whether it runs under MPS, and what else the script wants to know.
"""
import argparse
import contextlib
import json
import pathlib
import subprocess
import sys

from instance import Instance
from slices import Slices


def options(doc):
    """A parser of what all these scripts take; the script adds --way."""
    p = argparse.ArgumentParser(description=doc.splitlines()[0])
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    return p


def measured(ways):
    """(way, what it found) for each; None where it failed or MPS is missing."""
    for way, (mps, *_) in ways.items():
        command = [sys.executable, sys.argv[0], "--way", way] + sys.argv[1:]
        if mps:
            command.insert(0, str(pathlib.Path(__file__).parent / "under_mps"))
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        yield way, json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


@contextlib.contextmanager
def instances(way, device, environments, shares=(), arbiter="shares"):
    """An instance in each environment, and in a slice of its own if there are shares: what Slices.put takes. Ends
    the script if one was not under its slice, which on the emulated GPU says nothing."""
    with Slices(arbiter, emulated=device == "cpu") if shares else contextlib.nullcontext() as slices:
        for number, share in enumerate(shares, 1):
            slices.put(number, *share)
            environments[number - 1] = environments[number - 1] | slices.environment(number)
        started = [Instance(device, environment) for environment in environments]
        yield started
        held = [slices.state(number)["processes"] for number in range(1, len(shares) + 1)]
        if device == "cuda" and not all(held):
            sys.exit(f"{way}: an instance was not under its slice: {held}")
        for each in started:
            each.end()


def say_failed(failed):
    if failed:
        print("without figures:", ", ".join(failed))
