"""Writes a container image of this machine's programs with their shared libraries, for `ctr images import`, without a registry
or a base image:

    image.py OUT.tar NAME --files PROGRAM[=TARGET]... [--folders FOLDER...] [--links NAME=TARGET...] [--user UID]
        [--environment NAME=VALUE...] --entrypoint WORD...

Folders belong to the user. Programs are stripped, where `strip` is there.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile


def libraries(program: str) -> list[str]:
    """Returns the shared libraries that a program loads, as `ldd` names them; none for a script."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(?:=> |^\t)(/\S+) \(0x", said, re.MULTILINE)


def stripped(program: str) -> bytes:
    """Returns a file's bytes, without symbols if it is a program and that can be had."""
    with tempfile.TemporaryDirectory() as folder:
        made = f"{folder}/program"
        strip = shutil.which("strip")
        done = strip and subprocess.run([strip, "-o", made, program], capture_output=True, check=False).returncode == 0
        with open(made if done else program, "rb") as file:
            return file.read()


def layer(words: argparse.Namespace) -> bytes:
    """Returns the one layer of the image: a tar."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        def add(name: str, kind: bytes, mode: int, data: bytes = b"", link: str = "", user: int = 0) -> None:
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.type, entry.mode, entry.size, entry.linkname, entry.uid, entry.gid = kind, mode, len(data), link, user, user
            tar.addfile(entry, io.BytesIO(data))

        for link in ("bin", "lib", "lib64", "sbin"):  # As Debian has them.
            add(link, tarfile.SYMTYPE, 0o777, link=f"usr/{link}")
        add("tmp", tarfile.DIRTYPE, 0o1777)
        for folder in words.folders:
            add(folder, tarfile.DIRTYPE, 0o700, user=words.user)
        sources: dict[str, str] = {}
        for file in words.files:
            source, _, target = file.partition("=")
            sources[target or source] = source
            sources.update((library, library) for library in libraries(source))
        for target, source in sources.items():
            merged = target.startswith(("/lib", "/bin/", "/sbin/"))  # These are links.
            add(f"/usr{target}" if merged else target, tarfile.REGTYPE, 0o755, stripped(os.path.realpath(source)))
        for link in words.links:
            name, _, target = link.partition("=")
            add(name, tarfile.SYMTYPE, 0o777, link=target)
    return made.getvalue()


def main() -> None:
    """Writes the image."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("name")
    for flag in ("--files", "--folders", "--links", "--environment"):
        parser.add_argument(flag, nargs="*", default=[])
    parser.add_argument("--entrypoint", nargs=argparse.REMAINDER, default=[])
    parser.add_argument("--user", type=int, default=0)
    words = parser.parse_args()
    data = layer(words)
    digest = hashlib.sha256(data).hexdigest()
    environment = ["PATH=/usr/local/bin:/usr/bin:/bin", *words.environment]
    configuration = json.dumps({
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine], "os": "linux",
        "config": {"Entrypoint": words.entrypoint, "Env": environment, "User": f"{words.user}:{words.user}"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}).encode()
    name = hashlib.sha256(configuration).hexdigest()
    with tarfile.open(words.out, "w") as tar:
        manifest = json.dumps([{"Config": f"{name}.json", "RepoTags": [words.name], "Layers": [f"{digest}.tar"]}]).encode()
        for file, content in ((f"{name}.json", configuration), (f"{digest}.tar", data), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(file)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    main()
