"""Every fenced block of the Python pages runs as it stands, and so do the cells of the notebooks."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "docs" / name for name in ("python.md", "from_optuna.md", "guide/python_packages.md")]
# Pages whose Python blocks run, too; the others of theirs are run by nobody here.
GUIDES = [ROOT / "docs" / "guide" / name for name in ("several_metrics.md", "plots.md", "importance.md")]
NOTEBOOKS = sorted((ROOT / "examples").rglob("*.ipynb"))
README = ROOT / "README.md"
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PACKAGES = ("jax", "numpy", "optuna", "pandas", "ray", "sklearn", "torch", "xgboost")
# What is not Python installs the package: the wheel's own test does that.
SHELL = {
    "python.md": [
        "tools/build_wheel.sh\npip install ./dist/luthier-*-manylinux*.whl\n",
        "tools/install_packages.sh build\n"
        "for level in x86-64-v2 x86-64-v3; do\n"
        "  cmake --preset release -B build/$level -DLUTHIER_MARCH=$level -DLUTHIER_BUILD_TESTS=OFF -DLUTHIER_BUILD_BENCH=OFF\n"
        "  cmake --build build/$level --target luthier-programs luthier-launcher\n"
        "done\n"
        "tools/build_wheel.sh build/x86-64-v2/bin build/x86-64-v3/bin\n",
    ],
    "from_optuna.md": ["pip install ./dist/luthier-*-manylinux*.whl optuna\n"],
    "python_packages.md": [],
}


def blocks(page: Path) -> list[tuple[str, str]]:
    """Returns the language and the text of each fenced block."""
    return FENCED.findall(page.read_text(encoding="utf-8"))


def cases() -> list[Any]:
    """Returns the Python blocks; those that need packages which Debian lacks are marked."""
    found = []
    for page in [*PAGES, *GUIDES, README]:
        for i, (language, text) in enumerate(blocks(page)):
            if language == "python":
                marks = [pytest.mark.peers] if needed(text) else []
                found.append(pytest.param(text, id=f"{page.stem}-{i}", marks=marks))
    return found


def needed(text: str) -> list[str]:
    """Returns the packages that a program imports besides luthier."""
    return [name for name in PACKAGES if re.search(rf"^\s*(import|from) {name}\b", text, re.MULTILINE)]


def run(text: str, folder: Path) -> str:
    """Runs a program in an empty folder, with a coordinator of its own there; returns what it prints."""
    for name in needed(text):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    program = folder / "program.py"
    program.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("block", cases())
def test_block_runs(block: str, tmp_path: Path) -> None:
    run(block, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_every_block_is_known(page: Path) -> None:
    assert [text for language, text in blocks(page) if language != "python"] == SHELL[page.name]
    assert len(blocks(page)) >= 3


def test_the_first_screen_has_what_a_visitor_needs(tmp_path: Path) -> None:
    """README begins with the pip line, six lines of Python that print what it says, a picture and three measured facts."""
    screen = README.read_text(encoding="utf-8").split("\n## ", 1)
    assert screen[1].startswith("Build from source\n")
    lines = screen[0].splitlines()
    assert len(lines) <= 20 and any(line.startswith("pip install ./luthier-") for line in lines)
    program = next(text for language, text in blocks(README) if language == "python")
    assert program in screen[0] and len(program.splitlines()) == 6
    assert run(program, tmp_path).splitlines() == re.findall(r"^print\(.*  # (.*)$", program, re.MULTILINE)
    picture = re.search(r"!\[[^]]+\]\(([^)]+\.svg)\)", screen[0])
    assert picture and "<svg" in (ROOT / picture[1]).read_text(encoding="utf-8")[:1000]
    facts = [re.search(r"\[measured\]\((bench/[^)#]+/pages/[^)#]+)", line) for line in lines if line.startswith("- **")]
    assert len(facts) == 3 and all(fact and (ROOT / fact[1]).is_file() for fact in facts)


def test_the_first_program_goes_on_when_run_again(tmp_path: Path) -> None:
    first = next(text for language, text in blocks(PAGES[0]) if language == "python")
    run(first + "assert len(study) == 25\n", tmp_path)
    run(first + "assert len(study) == 50\n", tmp_path)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: str(path.stem))
def test_cells_run(notebook: Path, tmp_path: Path) -> None:
    """Runs the code cells in order, and shows the last value of each as a notebook does."""
    page = json.loads(notebook.read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in page["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 3 and page["nbformat"] == 4
    assert all(cell["outputs"] == [] for cell in page["cells"] if cell["cell_type"] == "code"), "clear the outputs"
    program = tmp_path / "cells.py"
    program.write_text(f"CELLS = {cells!r}\n{_RUNNER}", encoding="utf-8")
    out = run(program.read_text(encoding="utf-8"), tmp_path)
    assert "<svg" in out  # The study shows its history.


_RUNNER = """
import ast
space = {"__name__": "__main__"}
for cell in CELLS:
    body = ast.parse(cell).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "<cell>", "exec"), space)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), space)
        print(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
"""


@pytest.mark.peers
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: str(path.stem))
def test_notebook_runs_in_jupyter(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install nbclient ipykernel")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: pip install nbclient ipykernel")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    page = nbformat.read(notebook, as_version=4)
    nbclient.NotebookClient(page, timeout=120, kernel_name="python3").execute()
    shown = [out for cell in page.cells if cell.cell_type == "code" for out in cell.outputs if "data" in out]
    assert any("<svg" in out["data"].get("text/html", "") for out in shown)


def test_variables_of_the_pages_exist() -> None:
    """The environment variables that the pages name are read by the package."""
    sources = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "client" / "python" / "luthier").rglob("*.py")
    )
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name in set(re.findall(r"(?<!-D)LUTHIER_[A-Z_]+", text)):  # -D: an option of CMake.
        assert name in sources or name.replace("LUTHIER_TLS_", "") in sources, name
