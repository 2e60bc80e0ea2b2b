"""Finds the programs that the wheel carries, and is what the console scripts of their names run.

A console script lies where pip puts scripts, and a program there would not find the wheel's libraries. So the programs
stay inside the package, in `_bin`, and the scripts replace themselves by them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn, Optional

PROGRAMS = ("luthierd", "luthier-worker", "luthier")

_FOLDER = Path(__file__).resolve().parent / "_bin"


def find(name: str) -> Optional[Path]:
    """Returns the path of program `name` inside the package, or None in a wheel that carries no programs."""
    path = _FOLDER / name
    return path if path.is_file() and os.access(path, os.X_OK) else None


def why_missing(name: str) -> str:
    """Returns a sentence for people that says why there is no program `name`, and what to do."""
    return (
        f"this installation of the Python package luthier carries no program '{name}': it is the wheel for every "
        "platform. Install the wheel for Linux x86-64 or aarch64, build the programs from source, or name a server "
        "(server=, LUTHIER_SERVER)"
    )


def run(name: str) -> NoReturn:
    """Replaces this process by program `name` with the same arguments; exits with 127 where there is none."""
    path = find(name)
    if path is None:
        sys.stderr.write(f"{name}: {why_missing(name)}\n")
        sys.exit(127)
    os.execv(path, [name, *sys.argv[1:]])


def luthierd() -> NoReturn:
    """Runs the coordinator."""
    run("luthierd")


def luthier_worker() -> NoReturn:
    """Runs the worker."""
    run("luthier-worker")


def luthier() -> NoReturn:
    """Runs the command line client."""
    run("luthier")
