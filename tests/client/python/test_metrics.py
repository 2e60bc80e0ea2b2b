"""Several goals, and constraints on what trials measure."""

from __future__ import annotations

import asyncio
import logging
import math
import pickle
import re
from typing import Any, Optional

import pytest

import luthier
import luthier.aio

SPACE = {"x": luthier.Float(0, 1)}


def made(name: str, db: str, **options: Any) -> luthier.Study:
    """Makes a study whose settings are drawn at random."""
    return luthier.study(name, SPACE, algorithm="random", db=db, **options)


def test_the_best_trial_is_the_best_within_the_constraints(name: str, session_db: str) -> None:
    study = made(name, session_db, metric="loss", constraints={"ms": {"at_most": 20}})
    assert study.metric == "loss" and study.goals == {"loss": "minimize"}
    assert study.constraints == {"ms": {"at_most": 20.0}}
    with pytest.raises(ValueError, match="no trial of .* is complete yet"):
        _ = study.best_trial
    study.tell(study.ask(), {"loss": 0.1, "ms": 30.0})
    with pytest.raises(ValueError, match="no trial of .* meets the constraints; trial 1 violates them least"):
        _ = study.best_value
    study.tell(study.ask(), {"loss": 0.5, "ms": 20.0})
    assert (study.best_trial.number, study.best_value) == (2, 0.5)
    assert [trial.feasible for trial in study.trials] == [False, True]
    assert [trial.number for trial in study.get_trials(filter="feasible = false")] == [1]
    assert [trial.number for trial in study.front] == [2]


def test_the_front_has_what_no_trial_surpasses(name: str, session_db: str) -> None:
    goals = {"accuracy": {"goal": "maximize", "reference": 0.5}, "energy": "minimize"}
    study = made(name, session_db, goals=goals, constraints={"energy": {"at_most": 40}})
    assert study.goals == {"accuracy": "maximize", "energy": "minimize"} and study.direction == "maximize"
    for accuracy, energy in [(0.7, 10), (0.9, 41), (0.9, 30), (0.7, 11), (0.6, 5)]:
        study.tell(study.ask(), {"accuracy": accuracy, "energy": energy})
    assert [trial.number for trial in study.front] == [3, 1, 5]
    assert study.front[0].values == [0.9, 30.0] and study.front[0].metrics == {"accuracy": 0.9, "energy": 30.0}
    # Not both have a reference, so that it is a share. That of energy is 30 + (30 - 5) / 10; the box has the sides 0.4 and 27.5.
    area = 0.1 * 27.5 + 0.1 * 22.5 + 0.2 * 2.5
    assert study.hypervolume == pytest.approx(area / (0.4 * 27.5))
    with pytest.raises(ValueError, match="several objectives"):
        _ = study.best_trial
    again = pickle.loads(pickle.dumps(study.front[0]))
    assert again.values == [0.9, 30.0] and again.feasible is True


def test_objectives_return_all_metrics(name: str, session_db: str, caplog: pytest.LogCaptureFixture) -> None:
    study = made(name, session_db, goals={"a": "minimize", "b": "minimize"}, constraints={"c": {"at_least": 0}})
    results: list[Any] = [{"a": 1, "b": 2, "c": 3}, {"a": 1}, 1.0, {"a": 1, "b": 2, "c": math.nan}]
    study.optimize(lambda trial: results[trial.number - 1], n_trials=4)
    assert [trial.state.value for trial in study.trials] == ["COMPLETE", "FAILED", "FAILED", "FAILED"]
    assert "'b', 'c', the study's, are not among them" in study.trials[1].failure
    assert "it returns a dictionary with a, b, c" in study.trials[2].failure
    assert "c is NaN" in study.trials[3].failure
    with pytest.raises(luthier.BadField, match='lacks the study\'s metrics "b", "c"'):
        study.tell(study.ask(), {"a": 1})


def test_reports_at_rungs_have_all_objectives(name: str, session_db: str) -> None:
    study = made(name, session_db, goals={"a": "minimize", "b": "minimize"}, resource=luthier.Resource(min=1, max=9))
    trial = study.ask()
    with pytest.raises(ValueError, match="a point has all of them"):
        trial.report({"a": 1.0}, step=1)
    trial.report({"a": 1.0, "b": 2.0}, step=1)


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ({"value": {"a": 1.0}}, r'lacks b and has a; .*a point has all of them: report\({"a": ..., "b": ...}, step\)'),
        ({"value": {"a": 1.0, "B": 2.0}}, "lacks b and has a, B;"),
        ({"metrics": {"c": 1.0}}, "lacks a, b and has c;"),
        ({"value": 1.0}, r'the report has 1.0; .*a dictionary with all of them: report\({"a": ..., "b": ...}, step\)'),
        ({"value": (1.0, 2.0)}, "a dictionary with all of them|neither a value nor"),
        ({"value": {"a": 1.0, "b": "x"}}, "b is 'x', which is no real number"),
        ({"value": {"a": 1.0, "b": None}}, "b is None, which is no number"),
    ],
)
def test_incomplete_points_say_what_they_lack(name: str, session_db: str, point: dict[str, Any], words: str) -> None:
    trial = made(name, session_db, goals={"a": "minimize", "b": "minimize"}).ask()
    with pytest.raises((TypeError, ValueError), match=words):
        trial.report(**point, step=1)
    trial.report({"a": 1.0}, step=2, metrics={"b": 2.0, "extra": 3.0})
    assert trial._study.trial(1).intermediate_metrics == {2: {"a": 1.0, "b": 2.0, "extra": 3.0}}


def test_the_log_tells_no_trial_beyond_a_bound_as_the_best(
    name: str, session_db: str, caplog: pytest.LogCaptureFixture
) -> None:
    study = made(name, session_db, metric="loss", constraints={"ms": {"at_most": 20}})
    results = [{"loss": 0.1, "ms": 30}, {"loss": 0.5, "ms": 20}, {"loss": 0.2, "ms": 21}]
    caplog.set_level(logging.INFO, "luthier")
    study.optimize(lambda trial: results[trial.number - 1], n_trials=3)
    told = [record.getMessage() for record in caplog.records if "COMPLETE" in record.getMessage()]
    assert "loss = 0.1 (beyond a bound: ms = 30, at most 20)" in told[0]
    assert told[0].endswith("none within the constraints")
    assert told[1].endswith("best 0.5 (trial 2)") and told[2].endswith("best 0.5 (trial 2)")


def test_the_log_tells_of_the_front_where_there_are_several_goals(
    name: str, session_db: str, caplog: pytest.LogCaptureFixture
) -> None:
    study = made(name, session_db, goals={"a": "minimize", "b": "maximize"})
    results = [{"a": 1, "b": 1}, {"a": 2, "b": 2}, {"a": 3, "b": 1}, {"a": 0, "b": 3}]
    caplog.set_level(logging.INFO, "luthier")
    for n in (3, 1):
        study.optimize(lambda trial: results[trial.number - 1], n_trials=n)
    told = [record.getMessage() for record in caplog.records if "COMPLETE" in record.getMessage()]
    assert "a = 1, b = 1, with" in told[0]
    assert [line.rpartition("; ")[2] for line in told] == [f"{n} on the front" for n in (1, 2, 2, 1)]


def test_a_notebook_shows_the_best_within_the_constraints(name: str, session_db: str) -> None:
    study = made(name, session_db, metric="loss", constraints={"ms": {"at_most": 20}})
    for loss in (0.1, 0.2):
        study.tell(study.ask(), {"loss": loss, "ms": 30.0})
    shown = study._repr_html_()
    assert "no trial meets the constraints, so that none is the best; trial" in shown and "<table" not in shown
    assert 'd=""' in shown and "hollow beyond a bound" in shown
    study.tell(study.ask(), {"loss": 0.5, "ms": 20.0})
    shown = study._repr_html_()
    assert "2 beyond a bound" in shown and "<th>ms</th>" in shown
    assert re.findall("<tr><td>(.*?)</td>", shown) == ["3"] and shown.count("<circle") == 3


def test_a_notebook_shows_the_front_of_several_goals(name: str, session_db: str) -> None:
    study = made(name, session_db, goals={"a": "minimize", "b": "maximize"})
    for a, b in [(1, 1), (2, 2), (3, 1)]:
        study.tell(study.ask(), {"a": a, "b": b})
    shown = study._repr_html_()
    assert "2 on the front" in shown and "<th>a</th><th>b</th>" in shown and "b over a" in shown
    assert re.findall("<tr><td>(.*?)</td>", shown) == ["1", "2"]


def test_points_of_several_metrics_are_reported(name: str, session_db: str) -> None:
    study = made(name, session_db, goals={"a": "minimize", "b": "minimize"})

    def objective(trial: luthier.Trial) -> dict[str, float]:
        trial.report({"a": 3.0, "b": 4.0}, step=1)
        trial.report({"a": 2.0, "b": 5.0, "c": 6.0}, step=2)
        return {"a": 1.0, "b": 2.0}

    study.optimize(objective, n_trials=1)
    points = {1: {"a": 3.0, "b": 4.0}, 2: {"a": 2.0, "b": 5.0, "c": 6.0}}
    for trial in (study.trial(1), study.trials[0], pickle.loads(pickle.dumps(study.trials[0]))):
        assert trial.intermediate_values == {1: 3.0, 2: 2.0} and trial.intermediate_metrics == points
    assert study.trial(1).values == [1.0, 2.0]
    other = made(name + "-other", session_db, goals={"a": "minimize", "b": "minimize"})
    other.add_trials(study.trials)
    assert other.trial(1).intermediate_metrics == points


def test_a_metric_that_is_no_number_is_said_to_be_none(name: str, session_db: str) -> None:
    study = made(name, session_db, goals={"a": "minimize", "b": "minimize"}, constraints={"c": {"at_least": 0}})
    results: list[Any] = [{"a": 1, "b": 2, "c": "x"}, {"a": 1, "b": 2, "c": None}, {"a": 1, "b": 2, "c": 3, "d": "x"}]
    study.optimize(lambda trial: results[trial.number - 1], n_trials=3)
    assert [trial.state.value for trial in study.trials] == ["FAILED", "FAILED", "COMPLETE"]
    assert "c is 'x', which is no real number" in study.trials[0].failure
    assert "c is None, which is no number" in study.trials[1].failure
    trial = study.ask()
    with pytest.raises(TypeError, match="c is 'x', which is no real number"):
        study.tell(trial, results[0])
    with pytest.raises(TypeError, match="c is None, which is no number"):
        study.tell(trial, (1, 2, None))
    assert study.tell(trial, results[2]) == ["left out: d is 'x', which is no real number; trial.set_user_attr keeps it"]


def test_data_frames_have_objectives_alike(name: str, session_db: str) -> None:
    pytest.importorskip("pandas")
    study = made(name, session_db, goals={"b": "minimize", "a": "maximize"}, constraints={"c": {"at_least": 0}})
    study.tell(study.ask(), {"a": 1.0, "b": 2.0, "c": 3.0})
    frame = study.trials_dataframe()
    assert list(frame.columns)[:6] == ["number", "state", "metrics_b", "metrics_a", "params_x", "metrics_c"]
    assert frame.iloc[0].tolist()[2:4] == [2.0, 1.0]
    other = made(name + "-other", session_db, goals=study.goals, constraints=study.constraints)
    other.import_trials(frame)
    assert other.trials[0].metrics == study.trials[0].metrics


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goals": {"a": "minimize"}, "metric": "b"}, "goals= for several"),
        ({"goals": {}}, "goals is empty"),
        ({"goals": {"a": "least"}}, "not 'minimize' or 'maximize'"),
        ({"goals": {"a": {"goal": "minimize", "best": 1}}}, "'best'; it has reference"),
        ({"constraints": {"a": {"max": 1}}}, "'max'; it has at_least, at_most"),
        ({"constraints": {"a": 1}}, "constraints"),
        ({"goal": "least"}, "not 'minimize' or 'maximize'"),
    ],
)
def test_what_is_wrong_is_said_by_name(name: str, session_db: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        made(name, session_db, **options)


def test_what_the_service_refuses_names_the_metric(name: str, session_db: str) -> None:
    with pytest.raises(luthier.BadField, match=r"metrics\[1\].name: \"x\" is the name of a parameter"):
        made(name, session_db, constraints={"x": {"at_most": 1}})
    with pytest.raises(luthier.BadField, match="no value meets both"):
        made(name, session_db, constraints={"ms": {"at_least": 2, "at_most": 1}})


def test_trials_go_out_and_in_with_all_metrics(name: str, session_db: str, tmp_path: Any) -> None:
    study = made(name, session_db, goals={"a": "minimize", "b": "maximize"}, constraints={"c": {"at_most": 1}})
    for c in (0.5, 2.0):
        study.tell(study.ask(), {"a": 1.0, "b": 2.0, "c": c, "d": 7.0})
    for suffix in ("jsonl", "csv"):
        study.export(str(tmp_path / f"trials.{suffix}"))
        other = made(f"{name}-{suffix}", session_db, goals=study.goals, constraints=study.constraints)
        other.import_trials(str(tmp_path / f"trials.{suffix}"))
        assert [(t.metrics, t.feasible) for t in other.trials] == [(t.metrics, t.feasible) for t in study.trials]
    head, first, second = (tmp_path / "trials.csv").read_text().splitlines()
    place = head.split(",").index("feasible")
    assert [row.split(",")[place] for row in (first, second)] == ["true", "false"]
    table = study.trials_dataframe()
    assert table["feasible"].tolist() == [True, False] and table["metrics_b"].tolist() == [2.0, 2.0]


def test_gradients_of_every_metric_are_kept(name: str, session_db: str, caplog: Any) -> None:
    study = made(name, session_db, goals={"a": "minimize", "b": "maximize"}, constraints={"c": {"at_most": 1}})
    values = {"a": 1.0, "b": 2.0, "c": 0.5}
    assert study.tell(study.ask(), values, gradients={"a": {"x": 1.0}, "c": {"x": 3.0}}) == []
    study.tell(study.ask(), values, gradient={"x": 5.0})
    study.tell(study.ask(), (values, {"b": {"x": 7.0}}))
    study.optimize(lambda trial: (values, {"a": {"x": 1.0}, "b": {"x": 2.0}}), n_trials=1)
    assert [t.gradients for t in study.trials] == [
        {"a": {"x": 1.0}, "c": {"x": 3.0}}, {"a": {"x": 5.0}}, {"b": {"x": 7.0}}, {"a": {"x": 1.0}, "b": {"x": 2.0}}
    ]  # fmt: skip
    assert [t.gradient for t in study.trials] == [{"x": 1.0}, {"x": 5.0}, None, {"x": 1.0}]
    trial = study.ask()
    trial.report(values, gradients={"b": {"x": math.inf}, "c": {"x": 1.0}})
    assert "the gradient of b is not finite" in caplog.text
    with pytest.raises(ValueError, match="give gradient or gradients, not both"):
        study.tell(trial, values, gradient={"x": 1.0}, gradients={"b": {"x": 1.0}})
    with pytest.raises(TypeError, match=r"gradients\['b'\]"):
        study.tell(trial, values, gradients={"b": 3.0})
    with pytest.raises(ValueError, match="names \\['nope'\\]"):
        study.tell(trial, values, gradients={"b": {"nope": 3.0}})
    with pytest.raises(ValueError, match=r"gradients names 'other', which is none of the metrics \['a', 'b', 'c'\]"):
        study.tell(trial, values, gradients={"other": {"x": 1.0}, "b": {"x": 2.0}})
    assert study.tell(trial, values, gradients={"b": {"x": 2.0}}) == []
    assert study.trial(5).gradients == {"b": {"x": 2.0}}


def test_a_trial_tells_what_was_expected_of_each_metric(name: str, session_db: str) -> None:
    goals = {"a": "minimize", "b": "minimize"}
    study = luthier.study(name, SPACE, goals=goals, constraints={"c": {"at_most": 0.6}}, algorithm="bo", db=session_db)
    study.optimize(lambda trial: {"a": trial["x"], "b": 1 - trial["x"], "c": trial["x"] ** 2}, n_trials=7)
    assert study.explain(1)["expectations"] == {}
    expected = study.explain(7)["expectations"]
    assert list(expected) == ["a", "b", "c"] and expected["a"][0].sd > 0 and expected["a"][1] is None
    assert 0 <= expected["c"][1] <= 1
    assert any(sentence.startswith("the models expected a = ") for sentence in study.explain(7)["sentences"])


def test_one_metric_is_as_it_was(name: str, session_db: str) -> None:
    study = made(name, session_db)
    study.tell(study.ask(), 0.5)
    assert study.best_trial.values == [0.5] and study.best_trial.feasible is None
    assert study.goals == {"value": "minimize"} and study.constraints == {} and study.hypervolume is None
    assert "feasible" not in study.trials_dataframe()


def test_event_loops_see_the_same(name: str, session_db: str) -> None:
    async def run() -> tuple[dict[str, str], list[Optional[list[float]]]]:
        goals: dict[str, Any] = {"a": "minimize", "b": "minimize"}
        study = await luthier.aio.study(name, SPACE, algorithm="random", goals=goals, db=session_db)
        await study.optimize(lambda trial: {"a": trial["x"], "b": 1 - trial["x"]}, n_trials=3)
        return study.goals, [trial.values for trial in await study.front]

    goals, values = asyncio.run(run())
    assert goals == {"a": "minimize", "b": "minimize"} and len(values) == 3
