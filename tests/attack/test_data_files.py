"""Data files are other people's: what a worker reads of them is bounded, and errors have places, not contents."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import resource
import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attack import Coordinator, run
from workers import PLAIN, worker_command

@pytest.fixture()
def server(tmp_path: Path) -> Iterator[str]:
    with Coordinator(tmp_path) as made:
        yield made.own_socket


CELL = "s3cret"
BAD_DATA = {
    "cell.csv": f"x,w,y\n1,2,0\n1,{CELL},1\n",
    "header.csv": f"{CELL},{CELL},y\n1,2,0\n",
    "column.csv": f"{CELL}x,y\n1,0\n2,1\n",
    "label.csv": f"x,y\n1,{CELL}\n2,{CELL}\n",
    "alone.csv": f"x,y\n1,a\n2,a\n3,a\n4,{CELL}\n",
    "missing.csv": "x,y\n1,0\n,1\n",
    "entry.svm": f"0 1:1\n1 {CELL}\n",
    "index.svm": f"0 1:1\n1 {CELL}:1\n",
    "value.svm": f"0 1:1\n1 1:{CELL}\n",
    "start.svm": f"0 1:1\n{CELL} 1:1\n",
    "begin.svm": f"{CELL}:1 1:1\n",
}


def failure_of(server: str, folder: Path, data: str, how: dict[str, Any] | None = None, **options: str) -> tuple[str, int]:
    """The text with which a trial of `data` fails, and the most memory that the worker held, in MiB."""
    file = folder / "b.yaml"
    file.write_text(json.dumps({
        "space": [{"name": "l2", "float": {"min": 1e-6, "max": 1, "scale": "LOG"}}],
        "metric": {"name": "validation_loss", "goal": "MINIMIZE"}, "budget": {"max_trials": 1},
        "objective": {"builtin": {"model": "logistic", "data": data, "split": {"validation": 0.25},
                                  "options": options}}}))
    run("luthier", "study", "create", "-f", file, "--server", server)
    command = worker_command(server, folder, "--max-trials", "1")
    worker = subprocess.Popen(command, env=PLAIN, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **(how or {}))
    text = worker.stderr.read()
    _, status, usage = os.wait4(worker.pid, 0)
    worker.returncode = os.waitstatus_to_exitcode(status)
    assert worker.returncode == 0, text
    trial = run("luthier", "trial", "get", "b", "1", "-o", "json", "--server", server).stdout
    run("luthier", "study", "delete", "b", "--yes", "--server", server)
    assert json.loads(trial)["state"] == "FAILED", trial
    return trial + text, usage.ru_maxrss // 1024


def test_errors_of_data_have_places_and_no_contents(server: str, tmp_path: Path) -> None:
    for name, text in BAD_DATA.items():
        (tmp_path / name).write_text(text)
        options = {"label": f"{CELL[:-1]}u"} if name == "column.csv" else {}
        said, _ = failure_of(server, tmp_path, name, **options)
        assert name in said, said
        assert CELL not in said, f"{name}: {said}"


def with_dictionary(xz: bytes, bits: int) -> bytes:
    """The same stream with a header that asks for a dictionary of 2 << `bits` / 2 + 11 bytes."""
    size = (xz[12] + 1) * 4
    header = bytearray(xz[12:12 + size - 4])
    header[header.index(b"\x21\x01") + 2] = bits
    return xz[:12] + bytes(header) + struct.pack("<I", zlib.crc32(bytes(header))) + xz[12 + size:]


def test_compressed_data_expand_within_bounds_and_say_them(server: str, tmp_path: Path) -> None:
    text = b"1,1,1,1,1,1,1,1,1,0\n" * 1_600_000
    xz = lzma.compress(text)
    assert len(xz) < 5000
    bombs = {"bomb.csv.xz": (xz, "1000 times"),
             "bomb.svm.gz": (gzip.compress(b"0" * (64 << 20)), "1000 times"),
             "dictionary.csv.xz": (with_dictionary(lzma.compress(b"1,2,0\n2,1,1\n" * 9), 33), "xz -9"),
             "huge.csv.xz": (with_dictionary(lzma.compress(b"1,2,0\n2,1,1\n" * 9), 40), "xz -9")}
    (tmp_path / "plain.csv").write_text(f"x,y\n1,{CELL}\n2,{CELL}\n")
    _, small = failure_of(server, tmp_path, "plain.csv")
    for name, (data, word) in bombs.items():
        (tmp_path / name).write_bytes(data)
        said, memory = failure_of(server, tmp_path, name)
        assert word in said, said
        assert memory < small + 150, f"{name}: {memory} MiB, and {small} without it"


@pytest.mark.skipif("LUTHIER_ATTACK_SANITIZED" in os.environ, reason="a sanitizer reserves address space of its own")
def test_compressed_data_expand_to_a_part_of_the_memory(server: str, tmp_path: Path) -> None:
    rows = b"".join(b"%d,0.%040d,0.%040d,%d\n" % (i % 9, i * i, 7 * i, i % 2) for i in range(100_000))
    member = gzip.compress(rows, 1)
    limit = 3 << 30  # Of the address space: half of it is for the process, and a quarter of that for text.
    (tmp_path / "large.csv.gz").write_bytes(member * (limit // 8 // len(rows) + 2))
    (tmp_path / "small.csv.gz").write_bytes(member)
    bounded = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))}
    said, memory = failure_of(server, tmp_path, "large.csv.gz", bounded)
    assert "large.csv.gz: the gzip data expand to more than 384 MiB" in said and "name the expanded file" in said, said
    assert memory < 1000, memory
    with pytest.raises(AssertionError, match="COMPLETE"):
        failure_of(server, tmp_path, "small.csv.gz", bounded)


def test_honest_compressed_data_are_read(tmp_path: Path) -> None:
    rows = "".join(f"{i % 7},{i % 11},{i % 2}\n" for i in range(20000)).encode()
    for name, data in (("a.csv.xz", lzma.compress(rows, preset=9 | lzma.PRESET_EXTREME)), ("a.csv.gz", gzip.compress(rows))):
        (tmp_path / name).write_bytes(data)
        study = tmp_path / "h.yaml"
        study.write_text(json.dumps({
            "space": [{"name": "l2", "float": {"min": 1e-6, "max": 1, "scale": "LOG"}}],
            "metric": {"name": "validation_loss", "goal": "MINIMIZE"}, "budget": {"max_trials": 1},
            "objective": {"builtin": {"model": "logistic", "data": name, "split": {"validation": 0.25}}}}))
        run("luthier", "run", study, "--workers", "1", "--db", tmp_path / name.replace(".", "-"), cwd=tmp_path, env=PLAIN)
