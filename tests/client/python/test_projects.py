"""Studies of other projects: by the token, and by name."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import luthier
from luthier import _client

BIN = os.environ.get("LUTHIER_BIN_DIR", "build/release/bin")


@pytest.fixture()
def team(tmp_path, monkeypatch):
    """A coordinator on a port, and the token of somebody in the project vision."""
    data = str(tmp_path / "data")
    server = subprocess.Popen(
        [f"{BIN}/luthierd", "--listen", "127.0.0.1:0", "--data-dir", data, "--exit-with-stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    address = server.stdout.readline().split()[-1]

    def admin(*words: str) -> str:
        command = [f"{BIN}/luthier", "admin", *words, "--db", data]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    admin("project", "create", "vision")
    monkeypatch.setenv(
        "LUTHIER_TOKEN", admin("token", "create", "--project", "vision", "--role", "user", "--name", "a")
    )
    yield address
    _client.close_all()
    server.communicate()


def test_a_token_is_enough(team):
    study = luthier.study("s", {"x": luthier.Float(0, 1)}, metric="loss", server=team, max_trials=3)
    study.optimize(lambda trial: trial["x"])
    again = luthier.load("s", server=team)
    assert len(again.trials) == 3 and [s.name for s in luthier.studies(server=team)] == ["s"]
    assert luthier.load("vision/s", server=team).best_value == again.best_value
    with pytest.raises(luthier.NotFound):
        luthier.load("default/s", server=team)


def test_without_a_token(team, monkeypatch):
    monkeypatch.delenv("LUTHIER_TOKEN")
    with pytest.raises(luthier.LuthierError, match="asks for a token"):
        luthier.studies(server=team)


@luthier.objective(space={"x": (0.0, 1.0)}, metric="loss", algorithm="random", name="vision/tuned")
def _train(trial):
    return trial["x"]


def _parabola(trial):
    return (trial["x"] - 0.5) ** 2


def test_names_of_a_project(db, tmp_path, monkeypatch):
    """All that makes, finds and runs a study takes PROJECT/NAME; a coordinator of one's own has every project."""
    luthier.study("s", {"x": (0.0, 1.0)}, db=db)
    study = luthier.study("vision/s", {"x": (0.0, 1.0)}, db=db)
    assert (study.project, study.name) == ("vision", "s") and study.ask().number == 1
    assert luthier.load("s", db=db).project == "default" and len(luthier.load("s", db=db)) == 0
    study.optimize(_parabola, n_trials=4, processes=2)
    assert len(luthier.load("vision/s", db=db)) == 5 and [s.name for s in luthier.studies(project="vision", db=db)] == [
        "s"
    ]
    tuned = _train.tune(3, processes=2, db=db, python=sys.executable)
    assert (tuned.project, tuned.name) == ("vision", "tuned")
    assert [t.state.value for t in tuned.trials] == ["COMPLETE"] * 3, [t.failure for t in tuned.trials]
    file = tmp_path / "f.yaml"
    file.write_text("space: [{name: x, float: {min: 0, max: 1}}]\nmetric: {name: loss, goal: MINIMIZE}\n")
    assert luthier.from_file(str(file), "vision/f", db=db).project == "vision"
    monkeypatch.setenv("LUTHIER_PROJECT", "vision")
    assert luthier.from_file(str(file), db=db).project == "vision"
    assert sorted(s.name for s in luthier.studies(db=db)) == ["f", "s", "tuned"]
    assert luthier.study("s", {"x": (0.0, 1.0)}, db=db).project == luthier.load("s", db=db).project == "vision"
    assert repr(luthier.load("default/s", db=db)) == "<luthier.Study 's'>" and "'vision/s'" in repr(study)


def test_a_token_of_a_project_runs_processes_and_workers(team):
    study = luthier.study("s", {"x": luthier.Float(0, 1)}, server=team)
    study.optimize(_parabola, n_trials=2, processes=2)
    assert [t.state.value for t in study.trials] == ["COMPLETE"] * 2
    with pytest.raises(luthier.LuthierError, match="no project 'nobody'"):
        luthier.study("nobody/s", {"x": (0.0, 1.0)}, server=team)
