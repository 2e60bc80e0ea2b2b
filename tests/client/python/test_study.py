"""Studies as users write them: declared and open spaces, asking and telling, failures, gradients."""

from __future__ import annotations

import asyncio
import math
import os
from collections import Counter

import pytest

import luthier


def test_quickstart_in_an_open_space(session_db):
    study = luthier.study("parabola", db=session_db)
    study.optimize(lambda t: (t.suggest_float("x", -10, 10) - 2) ** 2, n_trials=25)
    assert len(study) == 25
    assert abs(study.best_params["x"] - 2) < 1e-3
    study.optimize(lambda t: (t.suggest_float("x", -10, 10) - 2) ** 2, n_trials=5)
    assert len(study) == 30
    assert [t.number for t in study.trials] == list(range(1, 31))


def test_types_of_values_come_back(session_db):
    choices = ["a", "1", 1, 1.5, True, None, '"q"', "null"]
    study = luthier.study(
        "types", {"c": luthier.Categorical(choices), "k": (1, 5), "f": (0.0, 1.0), "b": [True, False]}, db=session_db
    )
    seen = set()

    def f(trial):
        c = trial["c"]
        assert any(c is x or (type(c) is type(x) and c == x) for x in choices), c
        assert type(trial["k"]) is int and type(trial["f"]) is float and type(trial["b"]) is bool
        seen.add(repr(c))
        return trial["f"]

    study.optimize(f, n_trials=40)
    assert len(seen) > 4
    loaded = luthier.load("types", db=session_db)
    assert [t.params for t in loaded.trials] == [t.params for t in study.trials]


def test_names_that_the_service_refuses(session_db):
    study = luthier.study("names", {"lr/0": luthier.Float(0, 1), "größe": luthier.Int(1, 3)}, db=session_db)
    study.optimize(lambda t: t["lr/0"] + t["größe"], n_trials=3)
    assert set(study.best_params) == {"lr/0", "größe"}


def test_conditions(session_db):
    space = {"model": ["svm", "mlp"], "width": luthier.Int(1, 9).when("model", "mlp")}
    study = luthier.study("conditions", space, db=session_db)
    study.optimize(lambda t: t["width"] if t["model"] == "mlp" else 20, n_trials=20)
    assert all(("width" in t.params) == (t.params["model"] == "mlp") for t in study.trials)


def test_gradients_reach_the_search(session_db):
    def f(t):
        x = [t[f"x{i}"] for i in range(8)]
        return sum((v - 0.3) ** 2 for v in x), {f"x{i}": 2 * (v - 0.3) for i, v in enumerate(x)}

    space = {f"x{i}": luthier.Float(0, 1) for i in range(8)}
    study = luthier.study("gradients", space, algorithm="fobo", max_trials=12, db=session_db)
    study.optimize(f)
    assert study.best_value < 1e-3
    assert study.trials[0].gradient == pytest.approx({k: 2 * (v - 0.3) for k, v in study.trials[0].params.items()})
    assert max(study.check_gradient(f, study.best_params | {"x0": 0.9}).values()) < 1.0
    with pytest.raises(ValueError, match="nope"):
        study.tell(_more(study).ask(), 1.0, gradient={"nope": 1.0})


def _more(study):  # Room for more trials.
    study.update(max_trials=len(study) + 5)
    return study


def test_ask_and_tell(session_db):
    study = luthier.study("asked", {"x": (0.0, 1.0)}, metric="loss", goal="maximize", db=session_db)
    first, second = study.ask(2)
    assert study.tell(first, 0.5, standard_errors={"loss": 0.1}) == []
    assert study.tell(second.number, {"loss": 0.75, "other": 3}) == []
    assert study.best_value == 0.75 and study.best_trial.metrics["other"] == 3
    assert study.trial(1).standard_errors == {"loss": 0.1}
    study.tell(study.ask(), state="FAILED")
    pruned = study.ask()
    pruned.report(0.1, 1)
    study.tell(pruned, state="PRUNED")
    assert [t.state for t in study.trials[2:]] == ["FAILED", "PRUNED"]
    assert study.trial(4).value == 0.1
    with pytest.raises(ValueError, match="needs a value"):
        study.tell(study.ask(), None)


def test_what_objectives_do_wrong_fails_their_trials(session_db):
    study = luthier.study("wrong", {"x": (0.0, 1.0)}, db=session_db)
    results = iter([None, float("nan"), (1.0, 2.0), {"other": 1.0}, "text", (0.5, {"y": 1.0})])
    study.optimize(lambda t: next(results), n_trials=6)
    assert Counter(t.state.value for t in study.trials) == {"FAILED": 6}
    assert "returned None" in study.trial(1).failure
    assert "NON_FINITE" in study.trial(2).failure
    with pytest.raises(ZeroDivisionError):
        study.optimize(lambda t: 1 / 0, n_trials=3)
    assert "ZeroDivisionError" in study.trial(7).failure
    study.optimize(lambda t: 1 / 0, n_trials=2, catch=(ZeroDivisionError,))
    assert len(study) == 9
    with pytest.raises(KeyboardInterrupt):
        study.optimize(_interrupt, n_trials=1)
    assert study.trials[-1].state == "PENDING"  # Given back: somebody else may try it.


def _interrupt(trial):
    raise KeyboardInterrupt


def test_pruning_by_a_rule(session_db):
    study = luthier.study(
        "pruned",
        {"x": (0.0, 1.0)},
        algorithm="random",
        stopping={"median": {"min_trials": 3}},
        max_trials=25,
        db=session_db,
    )

    def f(trial):
        for step in range(1, 10):
            trial.report(trial["x"], step)
            if trial.should_stop():
                raise luthier.TrialPruned()
        return trial["x"]

    study.optimize(f)
    states = Counter(t.state.value for t in study.trials)
    assert states["PRUNED"] > 3 and states["COMPLETE"] > 3


def test_equal_words_load_and_others_are_refused(db):
    first = luthier.study("same", {"x": (0.0, 1.0)}, db=db)
    first.optimize(lambda t: t["x"], n_trials=2)
    assert len(luthier.study("same", {"x": (0.0, 1.0)}, db=db)) == 2
    with pytest.raises(luthier.StudyExists, match="space"):
        luthier.study("same", {"x": (0.0, 2.0)}, db=db)
    with pytest.raises(luthier.NotFound):
        luthier.load("none", db=db)
    with pytest.raises(luthier.BadField, match="min") as caught:
        luthier.study("bad", {"x": luthier.Float(2, 1)}, db=db)
    assert caught.value.violations[0].field.startswith("spec.space[0]")
    assert [s.name for s in luthier.studies(db=db)] == ["same"]


def test_open_spaces_by_branches(session_db):
    def f(trial):
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            return trial.suggest_float("lr", 1e-5, 1e-1, log=True)
        return sum(trial.suggest_float(f"w{i}", 0, 1) for i in range(trial.suggest_int("n", 1, 3))) + 1

    study = luthier.study("branches", db=session_db)
    study.optimize(f, n_trials=30)
    for t in study.trials:
        assert ("lr" in t.params) == (t.params["kind"] == "a"), t
        assert sum(name.startswith("w") for name in t.params) == t.params.get("n", 0)
    assert study.best_params["kind"] == "a"
    study.enqueue({"kind": "b", "n": 2, "w0": 0.25})
    study.optimize(f, n_trials=1)
    assert study.trials[-1].params["w0"] == 0.25 and study.trials[-1].params["n"] == 2
    with pytest.raises(luthier.ParameterDiffers, match="range"):
        study.optimize(lambda t: t.suggest_float("lr", 1e-3, 1.0, log=True), n_trials=1)


def test_enqueue_before_anything_is_declared(session_db):
    study = luthier.study("enqueued", db=session_db)
    study.enqueue({"x": 0.125})
    study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=1)
    assert study.trial(1).params == {"x": 0.125}


def test_results_from_elsewhere(session_db, tmp_path):
    study = luthier.study("first", {"x": (0.0, 1.0), "c": ["a", 1]}, db=session_db)
    numbers = study.add_trials(
        [
            {"params": {"x": 0.1, "c": "a"}, "value": 3.0, "attributes": {"from": "paper"}},
            {"params": {"x": 0.2, "c": 1}, "value": 2.0, "state": "PRUNED"},
            {"params": {"x": 0.3, "c": 1}, "state": "FAILED"},
        ]
    )
    assert numbers == [1, 2, 3]
    study.optimize(lambda t: t["x"], n_trials=2)
    for name in ("t.jsonl", "t.csv"):
        path = str(tmp_path / name)
        study.export(path)
        other = luthier.study("other-" + name[2:], {"x": (0.0, 1.0), "c": ["a", 1]}, db=session_db)
        other.import_trials(path)
        assert [(t.params, t.state, t.value) for t in other.trials if t.state != "FAILED"] == [
            (t.params, t.state, t.value) for t in study.trials if t.state != "FAILED"
        ]
    with pytest.raises(luthier.BadField, match="x"):
        study.add_trials([{"params": {"x": 7.0, "c": "a"}, "value": 1.0}])


def test_data_frame_and_notebook(session_db):
    pytest.importorskip("pandas")
    study = luthier.study("frame", {"x": (0.0, 1.0), "c": ["<b>", 1], "k": (1, 4)}, db=session_db)
    study.optimize(lambda t: {"value": t["x"], "acc": 2.0}, n_trials=12)
    frame = study.trials_dataframe()
    assert list(frame["number"]) == list(range(1, 13))
    assert list(frame["params_c"]) == [t.params["c"] for t in study.trials]
    assert frame["params_k"].dtype.kind == "i" and (frame["metrics_acc"] == 2.0).all()
    shown = study._repr_html_()
    assert "<svg" in shown and '<b>"' not in shown and "<script" not in shown
    assert set(study.importance()) == {"x", "c", "k"}


def test_a_negative_number_of_trials_is_refused(db):
    study = luthier.study("negative", {"x": (0.0, 1.0)}, db=db)
    with pytest.raises(ValueError, match="n_trials is -1: it is at least 0"):
        study.optimize(lambda t: t["x"], n_trials=-1)
    assert len(study.optimize(lambda t: t["x"], n_trials=0)) == 0


def test_changes(db):
    study = luthier.study("changed", {"x": (0.0, 1.0)}, max_trials=3, db=db)
    study.optimize(lambda t: t["x"], n_trials=100)
    assert len(study) == 3 and study.state == "COMPLETED"
    study.update(max_trials=5, space={"x": (0.0, 2.0)})
    study.optimize(lambda t: t["x"])
    assert len(study) == 5
    study.delete_trial(5)
    assert [t.number for t in study.trials] == [1, 2, 3, 4]
    study.update(max_trials=9)
    study.stop()
    assert study.ask() is None
    with pytest.raises(luthier.StudyFinished):
        study.update(max_trials=10)
    study.delete()
    assert luthier.studies(db=db) == []


def test_several_threads_and_callbacks(session_db):
    seen = []
    study = luthier.study("threads", {"x": (0.0, 1.0)}, db=session_db)
    study.optimize(lambda t: math.sin(t["x"]), n_trials=40, n_jobs=4, callbacks=[lambda s, t: seen.append(t.number)])
    assert sorted(seen) == list(range(1, 41))
    begin = len(study)
    study.optimize(lambda t: t["x"], timeout=0.5)
    assert len(study) >= begin


def test_a_number_of_the_environment_is_not_needed(db, monkeypatch):
    monkeypatch.setenv("LUTHIER_DB", db)
    study = luthier.study("elsewhere", {"x": (0.0, 1.0)})
    assert os.path.isdir(db)
    assert luthier.load("elsewhere").name == study.name


def test_trials_of_every_way_to_run_have_the_same_members(session_db, tmp_path, monkeypatch):
    import luthier.aio
    from luthier._gradient import _FixedTrial
    from luthier.run import RunTrial

    def public(of):
        return {name for name in dir(of) if not name.startswith("_")}

    study = luthier.study("members", {"x": (0.0, 1.0)}, algorithm="random", db=session_db)
    trial = study.ask()
    (tmp_path / "p.json").write_text('{"x": 0.5}')
    for name, text in {"PARAMETERS_FILE": tmp_path / "p.json", "TRIAL": 1, "ATTEMPT": 1, "SEED": 1}.items():
        monkeypatch.setenv("LUTHIER_" + name, str(text))
    for name in ("RESULT_FD", "REPLY_FD"):
        read, write = os.pipe()
        monkeypatch.setenv("LUTHIER_" + name, str(write if name == "RESULT_FD" else read))
    of_study = {"name", "explain"}
    assert public(trial) - public(RunTrial({"x": (0.0, 1.0)})) == of_study
    assert public(trial) - public(_FixedTrial({"x": 0.5})) == of_study
    assert public(trial) == public(asyncio.run(luthier.aio.Study(study).ask()))


def test_a_study_made_with_other_words_names_the_field_and_a_way_that_keeps_results(name, session_db):
    study = luthier.study(name, max_trials=10, db=session_db)
    study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=3)
    others = {
        "max_trials": (20, "budget.max_trials", "update(max_trials="),
        "goal": ("maximize", "metric.goal", "add_trials"),
        "metric": ("loss", "metric.name", "add_trials"),
        "seed": (3, "seed", "add_trials"),
        "algorithm": ("tpe", "algorithm", "add_trials"),
        "patience": (7, "budget.patience", "update(patience="),
        "description": ("mine", "description", "update(description="),
        "labels": ({"team": "vision"}, "labels", "update(labels="),
    }
    for option, (value, field, way) in others.items():
        with pytest.raises(luthier.StudyExists) as caught:
            luthier.study(name, **{"max_trials": 10, option: value}, db=session_db)
        assert f"first differ in {field};" in str(caught.value) and way in str(caught.value)
        assert "delete" not in str(caught.value)
    assert len(luthier.study(name, max_trials=10, db=session_db)) == 3
    with pytest.raises(luthier.StudyExists, match="differ in open_space"):
        luthier.study(name, {"x": (0.0, 1.0)}, max_trials=10, db=session_db)
