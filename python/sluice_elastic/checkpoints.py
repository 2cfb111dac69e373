"""Checkpoints of a job's state, in the format of src/train/checkpoints.h: a folder with `state` and `manifest`."""
import json
import os
import shutil
import zlib


def _write(path, data):
    with open(path, "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())


def _remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)


def save(folder, model, at, state):
    """Writes aside and renames, so that it is there whole or not at all. Returns its path."""
    path = os.path.join(folder, f"checkpoint-{at['step']}")
    if os.path.exists(os.path.join(path, "manifest")):
        return path
    aside = os.path.join(folder, f".writing-{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    manifest = {"version": 1, "model": model, **at, "bytes": len(state), "checksum": zlib.crc32(state)}
    try:
        os.mkdir(aside, 0o755)
        _write(os.path.join(aside, "state"), state)
        _write(os.path.join(aside, "manifest"), json.dumps(manifest, indent=2).encode())
        try:
            os.rename(aside, path)
        except OSError:  # what lies there is no checkpoint
            _remove(path)
            os.rename(aside, path)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return path


def load_newest(path, model):
    """Returns the state of that checkpoint; if it is damaged, that of the newest whole one beside it, and why.

    Removes those that it passed over. Raises ValueError if there is none, or if it is another model's.
    """
    folder = os.path.dirname(path)
    others = [n for n in os.listdir(folder) if n.startswith("checkpoint-") and n[len("checkpoint-"):].isdigit()]
    others.sort(key=lambda n: int(n[len("checkpoint-"):]))
    paths = [path] + [p for p in (os.path.join(folder, n) for n in reversed(others)) if p != path]
    why = ""
    for number, candidate in enumerate(paths):
        try:
            state, step = _read(candidate, model)
        except (_Damaged, OSError, KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as e:
            why = why or f"{candidate}: is damaged: {e}"
            continue
        for damaged in paths[:number]:
            _remove(damaged)
        return state, why and f"{why}; the job went on from step {step}"
    raise ValueError(f"{why}; there is no older whole checkpoint")


class _Damaged(Exception):
    pass


def _read(path, model):
    with open(os.path.join(path, "manifest")) as f:
        manifest = json.load(f)
    with open(os.path.join(path, "state"), "rb") as f:
        state = f.read()
    if manifest["model"] != model:
        raise ValueError(f"{path}: is a checkpoint of another model: it holds {manifest['model'][:200]}, "
                         f"this one {model[:200]}")
    if len(state) != manifest["bytes"] or zlib.crc32(state) != manifest["checksum"]:
        raise _Damaged("its checksum differs")
    return state, manifest["step"]
