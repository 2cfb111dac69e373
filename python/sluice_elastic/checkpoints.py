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
        os.rename(aside, path)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return path


def load(path, model):
    """Returns the state. Raises ValueError if it is damaged or another model's."""
    with open(os.path.join(path, "manifest")) as f:
        manifest = json.load(f)
    with open(os.path.join(path, "state"), "rb") as f:
        state = f.read()
    if manifest["model"] != model:
        raise ValueError(f"{path}: is a checkpoint of another model: it holds {manifest['model'][:200]}, "
                         f"this one {model[:200]}")
    if len(state) != manifest["bytes"] or zlib.crc32(state) != manifest["checksum"]:
        raise ValueError(f"{path}/state: is damaged: its checksum differs")
    return state
