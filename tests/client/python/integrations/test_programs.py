"""Small Optuna programs run with one line changed: `import luthier as optuna`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))


def run(source: str, folder: Path) -> None:
    """Runs a program in an empty folder and with a coordinator of its own there."""
    program = folder / "program.py"
    program.write_text(source)
    environment = {name: value for name, value in os.environ.items() if name != "LUTHIER_SERVER"}
    done = subprocess.run(
        [sys.executable, program], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_no_program_is_missing() -> None:
    assert len(PROGRAMS) == 30


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.stem))
def test_runs_with_luthier(program: Path, tmp_path: Path) -> None:
    source, changed = re.subn(r"^import optuna$", "import luthier as optuna", program.read_text(), flags=re.MULTILINE)
    assert changed == 1
    run(source, tmp_path)


@pytest.mark.peers
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.stem))
def test_is_an_optuna_program(program: Path, tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install optuna")
    run(program.read_text(), tmp_path)
