"""Programs that tests run in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def script(path: Path, text: str) -> list[str]:
    """Returns the command that runs a program, which is written to `path`."""
    head = "import luthier, os, sys, time, threading, signal\n"
    head += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # Background jobs of a shell ignore it.
    path.write_text(head + text, encoding="utf-8")
    return [sys.executable, str(path)]


def run(tmp_path: Path, text: str, code: int = 0, **more: Any) -> str:
    """Runs a program in a folder; returns what it prints."""
    done = subprocess.run(
        script(tmp_path / "script.py", text),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        **more,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def wait(condition: Any, seconds: float = 30.0) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Returns whether a process is there and no zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
