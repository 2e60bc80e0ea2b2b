"""Data directories of all kinds: names that an address can't hold, places that keep nothing, and some that vanish."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import subprocess
from pathlib import Path

import pytest
from programs import run

import luthier
from luthier._server import program

SPACE = {"x": (0.0, 1.0)}


@pytest.mark.parametrize("folder", ["My Documents", "größe", "100%20", "a,b;c", "new\nline", "q'\"", "d" * 150])
def test_names_that_an_address_cannot_hold(folder: str, tmp_path: Path) -> None:
    said = run(
        tmp_path,
        f"study = luthier.study('s', {SPACE}, algorithm='random', db={folder!r})\n"
        "print(len(study.optimize(lambda t: t['x'], n_trials=2)))\n"
        "print(len(study.optimize(lambda t: t['x'], n_trials=1)))\n"
        f"print(len(luthier.study('s', {SPACE}, algorithm='random', server='unix:{{}}/socket'.format({folder!r}))))\n"
        "import subprocess; from luthier._server import program\n"
        f"list = [program('luthier'), 'trial', 'list', 's', '--db', {folder!r}, '-o', 'name']\n"
        "print(subprocess.run(list, check=True, capture_output=True).stdout.count(b'\\n'))\n",
    )
    assert said.split() == ["2", "3", "3", "3"] and (tmp_path / folder / "luthier.db").is_file()


def test_a_place_may_be_a_path(tmp_path: Path) -> None:
    said = run(tmp_path, f"import pathlib\nprint(luthier.study('s', {SPACE}, db=pathlib.Path('p')).name)\n")
    assert said.strip() == "s" and (tmp_path / "p" / "luthier.db").is_file()


def test_places_that_keep_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "luthier.db").write_text("garbage" * 1000)
    for place, words in [
        ("file", "File exists; name another directory"),
        ("file/below", "Not a directory"),
        ("d" * 300, "File name too long"),
        ("bad", "not a SQLite database"),
    ]:
        with pytest.raises(luthier.Unavailable, match=words):
            luthier.study("s", SPACE, db=str(tmp_path / place))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_folder_that_is_not_ours_to_write(tmp_path: Path) -> None:
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == 0 and parent != Path("/") and str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    text = (
        "import grpc, luthier.study  # An interpreter in root's home is out of reach after that.\n"
        "os.setgid(65534); os.setuid(65534)\n"
        f"try:\n    luthier.study('s', {SPACE})\n"
        "except luthier.Unavailable as error:\n    print(error)\n"
    )
    assert "Permission denied; name another directory (db=, LUTHIER_DB)" in run(tmp_path, text)


def test_a_directory_that_was_removed_is_made_anew(tmp_path: Path) -> None:
    db = tmp_path / "db"
    luthier.study("s", SPACE, algorithm="random", db=str(db)).optimize(lambda t: t["x"], n_trials=3)
    shutil.rmtree(db)
    study = luthier.study("s", SPACE, algorithm="random", db=str(db))
    study.optimize(lambda t: t["x"], n_trials=2)
    assert len(study) == 2
    # They are where somebody else finds them.
    command = [program("luthier"), "--db", str(db), "trial", "list", "s"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.count("COMPLETE") == 2


def test_two_names_of_one_place(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    one = luthier.study("s", SPACE, algorithm="random", db=str(tmp_path / "real"))
    other = luthier.study("s", SPACE, algorithm="random", db=str(tmp_path / "link"))
    one.optimize(lambda t: t["x"], n_trials=1)
    assert len(other) == 1


def test_copies_of_a_study_are_the_same_study(name: str, session_db: str) -> None:
    study = luthier.study(name, SPACE, algorithm="random", db=session_db)
    for again in (copy.copy(study), copy.deepcopy(study), pickle.loads(pickle.dumps(study))):
        again.optimize(lambda t: t["x"], n_trials=1)
    assert type(again) is luthier.Study and len(study) == 3
    with pytest.raises(TypeError, match="trial 4 is leased to this process"):
        pickle.dumps(study.ask())


def test_asynchronous_functions_are_told_where_they_belong(name: str, session_db: str) -> None:
    async def objective(trial: luthier.Trial) -> float:
        return 1.0

    study = luthier.study(name, SPACE, algorithm="random", db=session_db).optimize(objective, n_trials=1)
    assert "luthier.aio" in study.trial(1).failure
