"""Studies of other projects: by the token, and by name."""

from __future__ import annotations

import os
import subprocess

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
    monkeypatch.setenv("LUTHIER_TOKEN", admin("token", "create", "--project", "vision", "--role", "user", "--name", "a"))
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
