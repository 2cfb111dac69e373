"""Writes container images as archives that `ctr images import` takes, out of finished layers."""
import hashlib
import io
import json
import tarfile


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def add_bytes(archive, name, data, mode=0o644):
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), mode
    archive.addfile(member, io.BytesIO(data))


def add_folder(archive, name, mode=0o755):
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, mode
    archive.addfile(member)


def add_link(archive, name, target):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    archive.addfile(member)


def write_image(path, reference, layers, config):
    """Writes the image REFERENCE; `layers` are tar files, the lowest first."""
    digests = [digest(layer) for layer in layers]
    described = json.dumps({
        "architecture": "amd64", "os": "linux", "config": config,
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + d for d in digests]},
        "history": [{"created_by": "sluice"} for _ in digests]}).encode()
    name = hashlib.sha256(described).hexdigest() + ".json"
    manifest = [{"Config": name, "RepoTags": [reference],
                 "Layers": [d + "/layer.tar" for d in digests]}]
    with tarfile.open(path, "w") as archive:
        add_bytes(archive, name, described)
        for layer, hashed in zip(layers, digests):
            archive.add(layer, f"{hashed}/layer.tar")
        add_bytes(archive, "manifest.json", json.dumps(manifest).encode())
