"""Notebooks in one folder: kernels that share a study, are killed, restarted and interrupted."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.peers
pytest.importorskip("ipykernel", reason="ipykernel is not installed: pip install nbclient ipykernel")
manager = pytest.importorskip("jupyter_client.manager", reason="jupyter_client is not installed: pip install nbclient")

CELL = """
import luthier
def objective(trial):
    return (trial.suggest_float("x", -10, 10) - 2) ** 2
study = luthier.study("parabola", algorithm="random")
study.optimize(objective, n_trials=5)
print(len(study))
"""


class Notebook:
    """A kernel in a folder; `run` gives what a cell prints to standard output, or its error."""

    def __init__(self, folder: Path) -> None:
        self.kernel = manager.KernelManager(kernel_name="python3")
        self.kernel.start_kernel(cwd=str(folder))
        self.client = self.kernel.client()
        self.client.start_channels()
        self.client.wait_for_ready(60)
        self.log = ""  # What the last cell wrote to standard error.

    def run(self, cell: str, on_output: Any = None) -> str:
        said: list[str] = []
        self.log = ""

        def hear(message: dict[str, Any]) -> None:
            content = message["content"]
            if content.get("name") == "stderr":
                self.log += content["text"]
                return
            said.append(content.get("text", "") if message["msg_type"] == "stream" else content.get("ename", ""))
            if on_output is not None:
                on_output(content.get("text", ""))

        self.client.execute_interactive(cell, output_hook=hear, timeout=60)
        return "".join(said).strip()

    def kill(self) -> None:
        os.kill(int(self.run("import os; print(os.getpid())")), signal.SIGKILL)


@pytest.fixture()
def notebooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Starts notebooks in one folder; they end with the test."""
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    started: list[Notebook] = []

    def start() -> Notebook:
        started.append(Notebook(tmp_path))
        return started[-1]

    yield start
    for notebook in started:
        notebook.client.stop_channels()
        notebook.kernel.shutdown_kernel(now=True)


def test_two_notebooks_share_a_study_and_outlive_each_other(notebooks: Any) -> None:
    one, other = notebooks(), notebooks()
    assert [one.run(CELL), other.run(CELL), one.run(CELL)] == ["5", "10", "15"]
    one.kill()  # With it goes the coordinator.
    assert other.run("study.optimize(objective, n_trials=5); print(len(study))") == "20"
    assert notebooks().run(CELL) == "25"
    assert other.run("study.optimize(objective, n_trials=2, processes=2); print(len(study))") == "27"


def test_a_cell_shows_its_progress_on_standard_error(notebooks: Any) -> None:
    notebook = notebooks()
    assert notebook.run(CELL) == "5"
    assert notebook.log.startswith("study parabola in ./luthier.db.d: 0 trials there, 5 more\n")
    assert "\rparabola: 5 of 5 trials, best " in notebook.log


def test_a_cell_that_is_interrupted_gives_its_trials_back(notebooks: Any) -> None:
    notebook = notebooks()
    notebook.run(CELL)
    slow = """
def slow(trial):
    trial.suggest_float("x", -10, 10)
    print("begun", flush=True)
    threading.Event().wait(60)
import threading
study.optimize(slow, n_trials=3)
"""
    said = notebook.run(slow, lambda text: notebook.kernel.interrupt_kernel() if "begun" in text else None)
    assert said.startswith("begun") and said.endswith("KeyboardInterrupt")
    assert notebook.run("print([t.state.value for t in study.trials if t.state != 'COMPLETE'])") == "['PENDING']"
    assert notebook.run("study.optimize(objective, n_trials=1); print(len(study))") == "6"


def test_asyncio_beside_the_kernels_own_loop(notebooks: Any) -> None:
    cell = """
import luthier.aio
async def objective(trial):
    return await trial.suggest_float("x", 0, 1)
study = await luthier.aio.study("aio", algorithm="random")
await study.optimize(objective, n_trials=5, n_jobs=2)
study.sync.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
print(len(study.sync))
"""
    assert notebooks().run(cell) == "7"
