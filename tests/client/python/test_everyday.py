"""What people write: notebooks run twice, spaces that change, numbers of numpy, threads, batches, notes."""

from __future__ import annotations

import math
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import luthier


def test_a_cell_that_is_run_twice(name: str, session_db: str) -> None:
    def cell() -> int:
        study = luthier.study(name, db=session_db)
        study.optimize(lambda t: (t.suggest_float("x", -10, 10) - 2) ** 2, n_trials=5)
        return len(study)

    assert [cell(), cell(), cell()] == [5, 10, 15]


def test_a_cell_whose_space_changed(name: str, session_db: str) -> None:
    luthier.study(name, {"x": (0.0, 1.0)}, db=session_db).optimize(lambda t: t["x"], n_trials=2)
    with pytest.raises(luthier.StudyExists, match="space") as caught:
        luthier.study(name, {"x": (0.0, 2.0)}, db=session_db)
    assert caught.value.reason == "STUDY_EXISTS"


def test_an_objective_whose_ranges_change(name: str, session_db: str) -> None:
    study = luthier.study(name, db=session_db)
    study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=2)
    with pytest.raises(luthier.ParameterDiffers, match="x"):
        study.optimize(lambda t: t.suggest_float("x", 0, 2), n_trials=1)
    with pytest.raises(luthier.ParameterDiffers, match="x"):
        study.optimize(lambda t: t.suggest_int("x", 0, 1), n_trials=1)
    study.update(space={"x": (0.0, 2.0)})
    study.optimize(lambda t: t.suggest_float("x", 0, 2), n_trials=2)
    assert Counter(t.state.value for t in study.trials) == {"COMPLETE": 4, "FAILED": 2}


def test_ranges_that_depend_on_other_parameters(name: str, session_db: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "luthier")

    def objective(trial: Any) -> float:
        a = trial.suggest_float("a", 0.0, 1.0)
        b = trial.suggest_float("b", 0.0, 1.0 - a)
        c = trial.suggest_float("c", 1e-3, 1e-2 + a, log=True)
        k = trial.suggest_int("k", 1, 1 + int(8 * a))
        n = trial.suggest_int("n", 0, 10 + 10 * k, step=5)
        assert b <= 1 - a and 1e-3 <= c <= 1e-2 + a and k <= 1 + int(8 * a) and n % 5 == 0 and n <= 10 + 10 * k
        assert trial.params == {"a": a, "b": b, "c": c, "k": k, "n": n}
        trial.set_user_attr("all", [a, b, c, k, n])
        return float((a - 0.3) ** 2 + (b - 0.5) ** 2 + k)

    study = luthier.study(name, db=session_db)
    study.optimize(objective, n_trials=12)
    study.optimize(objective, n_trials=2, n_jobs=2)
    luthier.study(name, db=session_db).optimize(objective, n_trials=1)  # A program that is run again.
    again = luthier.load(name, db=session_db)
    for trial in again.trials:
        assert list(trial.params) and sorted(trial.params) == ["a", "b", "c", "k", "n"]
        assert [trial.params[key] for key in "abckn"] == trial.user_attrs["all"]  # To the bit, and of the same type.
    assert again.best_params["k"] == 1 and set(again.best_trial.user_attrs) == {"all"}
    assert "'b (share)'" in caplog.text
    study.enqueue({"a": 0.25, "b": 0.05})
    study.optimize(objective, n_trials=1)
    assert study.trials[-1].params["b"] == 0.05
    with pytest.raises(ValueError, match="empty"):
        study.optimize(lambda t: t.suggest_float("a", 0.0, 1.0) + t.suggest_float("b", 1.0, 0.5), n_trials=1)


def test_ranges_of_one_value(name: str, session_db: str) -> None:
    study = luthier.study(name, db=session_db)

    def objective(trial: Any) -> float:
        a = trial.suggest_int("a", 0, 2)
        return float(trial.suggest_int("b", 0, 1 + a) + trial.suggest_int("c", 5 - a, 5))

    study.enqueue({"a": 1})
    study.enqueue({"a": 0})
    study.optimize(objective, n_trials=6)
    study.optimize(lambda t: t.suggest_float("d", 0.5, 0.5) + t.suggest_int("e", 3, 3), n_trials=1)
    assert study.trials[-1].params == {"d": 0.5, "e": 3} and study.trials[-1].value == 3.5
    assert study.trials[1].params["c"] == 5 and {t.state.value for t in study.trials} == {"COMPLETE"}


def test_ask_and_tell_with_a_range_that_changes(name: str, session_db: str) -> None:
    study = luthier.study(name, db=session_db)
    for high in (1.0, 0.5, 0.25):
        trial = study.ask()
        x = trial.suggest_float("x", 0.0, high)
        assert x <= high and trial.params == {"x": x}
        study.tell(trial, x)
    assert len(study.trials) == 3


def test_settings_that_do_not_fit_the_space_that_comes(
    name: str, session_db: str, caplog: pytest.LogCaptureFixture
) -> None:
    study = luthier.study(name, db=session_db)
    study.enqueue({"lr": 0.5, "units": 16, "optimiser": "adam"})
    study.enqueue({"lr": 0.05, "units": 9})

    def objective(trial: Any) -> float:
        return float(trial.suggest_float("lr", 1e-5, 1e-1, log=True) * trial.suggest_int("units", 8, 32))

    study.optimize(objective, n_trials=2)
    (warning,) = [r.getMessage() for r in caplog.records if "not used" in r.getMessage()]
    assert "trial 1" in warning and "lr = 0.5" in warning and "optimiser" in warning and "units" not in warning
    first, second = study.trials
    assert first.params["units"] == 16 and second.params == {"lr": 0.05, "units": 9} and first.user_attrs == {}
    explained = study.explain(1)["sentences"][0]
    assert "not tried: lr = 0.5" in explained and "optimiser = adam" in explained
    assert study.explain(2)["sentences"][0] == "tried because a user added it"
    caplog.clear()
    study.enqueue({"lr": 0.01, "unitz": 8})
    assert "'unitz', which no trial has asked for yet; they have asked for 'lr', 'units'" in caplog.text
    study.optimize(lambda t: 1 / 0 if t.suggest_float("lr", 1e-5, 1e-1, log=True) else 0, n_trials=1, catch=ZeroDivisionError)
    assert "not used: unitz = 8" in caplog.text
    caplog.clear()
    study.enqueue({"lr": 0.01, "dropout": 0.5})

    def pruned(trial: luthier.Trial) -> float:
        trial.suggest_float("lr", 1e-5, 1e-1, log=True)
        raise luthier.TrialPruned()

    study.optimize(pruned, n_trials=1)
    assert "not used: dropout = 0.5" in caplog.text
    with pytest.raises(luthier.BadField, match="lr"):
        study.enqueue({"lr": 0.5})


def test_numbers_of_numpy(name: str, session_db: str) -> None:
    np = pytest.importorskip("numpy")
    results = [
        np.float32(0.5), np.int64(2), np.array(1.5), np.array([2.5]), np.bool_(True),
        (np.float64(1.0), {"x": np.float32(2.0)}), {"value": np.float16(3.0), "n": np.int8(4)},
    ]  # fmt: skip
    bad = [np.array([1.0, 2.0]), np.float64("nan"), np.complex128(1j), np.array(["a"])]
    study = luthier.study(
        name, {"x": (np.float64(0.0), np.float64(1.0)), "k": (np.int64(1), np.int64(9))}, db=session_db
    )
    every = iter(results + bad)
    study.optimize(lambda t: next(every), n_trials=len(results))
    assert [t.value for t in study.trials] == [0.5, 2.0, 1.5, 2.5, 1.0, 1.0, 3.0]
    assert type(study.trials[0].params["k"]) is int
    study.optimize(lambda t: next(every), n_trials=len(bad))
    assert [t.state.value for t in study.trials[len(results) :]] == ["FAILED"] * len(bad)
    study.enqueue({"x": np.float32(0.5), "k": np.int64(3)})
    study.optimize(lambda t: t["x"], n_trials=1)
    assert study.trials[-1].params == {"x": 0.5, "k": 3}
    opened = luthier.study(name + "-open", db=session_db)
    opened.optimize(
        lambda t: t.suggest_float("x", np.float32(0), np.float64(1)) + t.suggest_int("k", np.int64(1), np.int32(4))
        + len(str(t.suggest_categorical("c", np.array(["a", "b"]))))
        + t.suggest_categorical("n", (np.int64(1), np.int64(2))),
        n_trials=3,
    )  # fmt: skip
    assert {type(t.params["n"]) for t in opened.trials} == {int}


def test_results_that_are_none(name: str, session_db: str, caplog: pytest.LogCaptureFixture) -> None:
    results = [
        None,
        "text",
        (1.0, 2.0),
        (1.0, 2.0, 3.0),
        [1.0],
        {"other": 1.0},
        (0.5, {"y": 1.0}),
        {},
    ]
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)
    every = iter([1.0, *results])
    study.optimize(lambda t: next(every), n_trials=1 + len(results))
    assert all(t.failure.startswith("BAD_OUTPUT") for t in study.trials[1:]), [t.failure for t in study.trials]
    assert "returned None" in caplog.text and "'y'" in study.trials[7].failure


def test_nested_and_conditional_spaces(name: str, session_db: str) -> None:
    def objective(trial: luthier.Trial) -> float:
        kind = trial.suggest_categorical("model.kind", ["svm", "mlp"])
        if kind == "svm":
            c = trial.suggest_float("model/svm/C", 1e-3, 1e3, log=True)
            if trial.suggest_categorical("model/svm/kernel", ["rbf", "linear"]) == "rbf":
                return abs(math.log10(c)) + trial.suggest_float("model/svm/γ", 0, 1)
            return abs(math.log10(c)) + 1
        layers = trial.suggest_int("Zahl der Schichten", 1, 3)
        return sum(trial.suggest_int(f"units[{i}]", 4, 128, log=True) for i in range(layers)) / 100

    study = luthier.study(name, db=session_db)
    study.optimize(objective, n_trials=30)
    for t in study.trials:
        assert ("model/svm/C" in t.params) == (t.params["model.kind"] == "svm")
        assert ("model/svm/γ" in t.params) == (t.params.get("model/svm/kernel") == "rbf")
        assert sum(n.startswith("units") for n in t.params) == t.params.get("Zahl der Schichten", 0)
    assert luthier.load(name, db=session_db).best_params == study.best_params


@pytest.mark.parametrize("bad", ["My Study", "größe", "a/b c", "a/", "", "-c", "x" * 65])
def test_names_of_studies_that_are_refused(bad: str, session_db: str) -> None:
    with pytest.raises(luthier.BadField, match="study_id"):
        luthier.study(bad, db=session_db)


def test_names_made_from_other_names() -> None:
    from luthier._create import study_id

    given = ["-c", "-", "", "My Study", "größe", "a/b.yaml", "..", "__init__", "x" * 80, "train_model"]
    made = ["c", "study", "study", "my-study", "gr-e", "a-b-yaml", "study", "init", "x" * 64, "train_model"]
    assert [study_id(text) for text in given] == made


@pytest.mark.parametrize(
    "server, words",
    [
        ("http://a:1", "scheme"),
        ("localhost", "no port"),
        ("a b:1", "spaces"),
        ("::1:7", "IPv6"),
        ("a:99999", "no port"),
    ],
)
def test_addresses_that_are_wrong(server: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        luthier.load("x", server=server)


def test_no_trials(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)
    study.optimize(lambda t: 1 / 0, n_trials=0)
    assert (len(study), study.trials) == (0, [])
    with pytest.raises(ValueError, match="no trial"):
        study.best_params
    with pytest.raises(luthier.TooFewResults):
        study.importance()


def test_threads_share_a_study(name: str, session_db: str) -> None:
    study = luthier.study(name, db=session_db)
    seen: list[int] = []

    def objective(trial: luthier.Trial) -> float:
        seen.append(trial.number)
        return trial.suggest_float("x", 0, 1) + trial.suggest_int("k", 0, 3)

    study.optimize(objective, n_trials=32, n_jobs=4)
    assert sorted(seen) == list(range(1, 33))
    assert Counter(t.state.value for t in study.trials) == {"COMPLETE": 32}
    with pytest.raises(ZeroDivisionError):
        study.optimize(lambda t: 1 / 0, n_trials=8, n_jobs=4)


def test_asking_for_more_than_there_is(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, max_trials=2, algorithm="random", db=session_db)
    first, second = study.ask(), study.ask()
    assert study.ask() is None  # Nobody else could end them.
    study.tell(first, 1.0)
    study.tell(second, 2.0)
    assert study.ask() is None and study.ask(3) == []
    with pytest.raises(ValueError, match="not asked for"):
        study.tell(1, 1.0)
    with pytest.raises(luthier.ConflictingReport):
        study.tell(first, 3.0)
    opened = luthier.study(name + "-b", {"x": (0.0, 1.0)}, algorithm="random", db=session_db)
    opened.optimize(lambda t: t["x"], n_trials=3)
    trials = [opened.ask() for _ in range(5)]
    assert [t.number for t in trials] == [4, 5, 6, 7, 8]


def test_batches(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)
    for _ in range(3):
        for trial in study.ask(4):
            study.tell(trial, trial["x"])
    assert len(study) == 12


def test_ten_thousand_trials(name: str, session_db: str) -> None:
    pytest.importorskip("pandas")
    study = luthier.study(name, {"x": (0.0, 1.0), "c": ["a", 1]}, algorithm="random", db=session_db)
    rows = [{"params": {"x": i / 10**4, "c": 1 if i % 2 else "a"}, "value": float(i)} for i in range(10**4)]
    assert study.add_trials(rows) == list(range(1, 10**4 + 1))
    assert [t.value for t in study.trials] == [row["value"] for row in rows]
    frame = study.trials_dataframe()
    assert len(frame) == 10**4 and frame["value"].sum() == sum(range(10**4))
    assert len(study._repr_html_()) < 200_000
    study.optimize(lambda t: t["x"], n_trials=1)
    assert study.best_value == 0.0 and len(study) == 10**4 + 1


def test_gradients_are_checked(name: str, session_db: str) -> None:
    def objective(trial: Any) -> Any:
        l2, w = trial.suggest_float("l2", 1e-3, 1, log=True), trial["w"]
        trial.report(1.0, 1)
        return l2**3 + sum(x * x for x in w), {"l2": 3 * l2**2, "w": [2 * x for x in w]}

    good = luthier.check_gradient(objective, {"l2": 0.3, "w": [1.0, -2.0], "kind": "a"})
    assert good.ok and set(good) == {"l2", "w[0]", "w[1]"} and max(good.values()) < 1e-6

    def wrong(trial: Any) -> Any:
        return {"loss": trial["x"] ** 2 + trial["y"]}, {"x": -2 * trial["x"], "y": 1.0}

    bad = luthier.check_gradient(wrong, {"x": 0.5, "y": 1.0, "z": 0.1}, metric="loss")
    assert not bad.ok and bad["x"] > 1 and bad["y"] < 1e-6
    assert str(bad).splitlines()[0].split() == ["parameter", "returned", "measured", "error"]
    assert "sign is the other one" in str(bad) and "so unknown: z" in str(bad)
    study = luthier.study(name, {"x": (0.0, 1.0), "y": (0.0, 1.0)}, metric="loss", db=session_db)
    assert study.check_gradient(wrong, {"x": 0.5, "y": 1.0}).keys() == {"x", "y"} and len(study) == 0
    with pytest.raises(ValueError, match="no gradient"):
        luthier.check_gradient(lambda t: t["x"], {"x": 1.0})
    with pytest.raises(ValueError, match="names \\['q'\\]"):
        luthier.check_gradient(lambda t: (t["x"], {"q": 1.0}), {"x": 1.0})
    with pytest.raises(KeyError, match="asks for 'y'"):
        luthier.check_gradient(wrong, {"x": 1.0})


def test_two_threads_make_the_same_study(db: str) -> None:
    made: list[Any] = []

    def make() -> None:
        made.append(luthier.study("same", {"x": (0.0, 1.0)}, db=db))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8 and len({id(s._client) for s in made}) == 1


def test_notes(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)
    for value in ({"a": [1, None]}, "text", "1", 3.5):
        study.optimize(lambda t, value=value: (t.set_user_attr("note", value), 1.0)[1], n_trials=1)
        assert study.trials[-1].user_attrs["note"] == value
    with pytest.raises(luthier.BadField, match="at most 65536"):
        study.set_attributes(1, {"big": "x" * 70_000})


def test_events_are_watched(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, max_trials=3, db=session_db)
    study.optimize(lambda t: t["x"])
    types = Counter(event.type for event in study.watch())
    assert types["TRIAL_COMPLETED"] == 3 and types["STUDY_COMPLETED"] == 1


def test_the_token_goes_with_every_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from luthier import _security

    path = tmp_path / "token"
    path.write_text("lut_a_b\n")
    path.chmod(0o600)
    monkeypatch.setenv("LUTHIER_TOKEN_FILE", str(path))
    assert _security.metadata() == (("authorization", "Bearer lut_a_b"),)
    path.chmod(0o644)
    with pytest.raises(ValueError, match="chmod 600"):
        _security.metadata()
    monkeypatch.setenv("LUTHIER_TOKEN_FILE", str(tmp_path / "none"))
    with pytest.raises(ValueError, match="LUTHIER_TOKEN_FILE"):
        _security.metadata()
    monkeypatch.delenv("LUTHIER_TOKEN_FILE")
    monkeypatch.setenv("LUTHIER_TOKEN", "lut_c_d")
    assert _security.metadata() == (("authorization", "Bearer lut_c_d"),)
