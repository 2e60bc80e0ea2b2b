"""What an objective returns, reports and notes: a loss is kept whatever stands beside it, and never an older one."""

from __future__ import annotations

import datetime
import decimal
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

import luthier
from luthier import _wire


def only(study: luthier.Study, objective: Any) -> luthier.FrozenTrial:
    """Runs one trial and returns it."""
    study.optimize(objective, n_trials=1)
    return study.trials[-1]


@pytest.mark.parametrize(
    "extras, left_out",
    [
        ({"status": "ok"}, "status"),
        ({"aux": None}, "aux"),
        ({"confusion": [[1, 2], [3, 4]]}, "confusion"),
        ({"val-acc": 0.9}, "val-acc"),
        ({3: 4.0}, "3"),
        ({"x" * 65: 1.0}, "x" * 65),
        ({"when": datetime.datetime(2020, 1, 1)}, "when"),
    ],
    ids=lambda x: str(x)[:20],
)
def test_an_extra_that_is_no_metric_never_costs_the_loss(
    extras: Any, left_out: str, name: str, session_db: str, caplog: pytest.LogCaptureFixture
) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, metric="loss", db=session_db)
    trial = only(study, lambda t: {"good": 2.0, **extras, "loss": 0.5})
    assert (trial.state, trial.metrics) == ("COMPLETE", {"loss": 0.5, "good": 2.0})
    only(study, lambda t: {**extras, "loss": 0.4})
    notes = [r.getMessage() for r in caplog.records if "left out" in r.getMessage()]
    assert len(notes) == 1 and left_out in notes[0]  # It is said once.


def test_the_metrics_of_a_trial_are_cut_to_those_that_fit(
    name: str, session_db: str, caplog: pytest.LogCaptureFixture
) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, metric="loss", db=session_db)
    trial = only(study, lambda t: {**{f"class{i}": 0.1 for i in range(41)}, "loss": 0.5})
    assert trial.value == 0.5 and len(trial.metrics) == 32 and "class30" in trial.metrics
    (note,) = [r.getMessage() for r in caplog.records if "left out" in r.getMessage()]
    assert "class31, class32" in note and "class40: a trial has at most 32 metrics" in note


def test_told_extras_come_back_as_warnings(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)
    trial = study.ask()
    (warning,) = study.tell(trial, {"value": 0.5, "status": "ok"}, standard_errors={"status": 1.0})
    assert "status" in warning and study.trials[0].value == 0.5
    trial = study.ask()
    with pytest.raises(TypeError, match="value is '0.5'"):
        study.tell(trial, {"value": "0.5", "status": "ok"})
    study.tell(trial, 0.5)


def test_nan_and_infinity_in_any_spelling_are_not_finite(name: str, session_db: str) -> None:
    np = pytest.importorskip("numpy")
    spellings = [
        float("nan"), float("-inf"), np.float32("inf"), np.array(np.nan), np.array([np.inf]), np.ma.masked,
        np.ma.array([1.0], mask=[True]), decimal.Decimal("NaN"), decimal.Decimal("sNaN"), decimal.Decimal("Infinity"),
    ]  # fmt: skip
    study = luthier.study(name, {"x": (0.0, 1.0)}, max_trials=100, db=session_db)
    every = iter(spellings)

    def objective(trial: luthier.Trial) -> Any:
        trial.report(0.1)
        return next(every)

    study.optimize(objective, n_trials=len(spellings))
    assert [t.failure.partition(":")[0] for t in study.trials] == ["NON_FINITE"] * len(spellings)


def test_what_can_not_be_read_never_gives_way_to_an_older_report(name: str, session_db: str) -> None:
    np = pytest.importorskip("numpy")
    returned, reported, pruned = (luthier.study(f"{name}-{i}", {"x": (0.0, 1.0)}, db=session_db) for i in range(3))
    malformed: list[Any] = ["0.2", [0.2], "nan", b"1", {"value": [0.2]}, 1j, np.array([1.0, 2.0])]

    def returning(result: Any) -> Any:
        return lambda trial: (trial.report(0.1), result)[1]

    def reporting(result: Any) -> Any:
        return lambda trial: (trial.report(0.1), trial.report(result), 0.3)[2]

    def giving_up(result: Any) -> Any:
        def objective(trial: luthier.Trial) -> float:
            trial.report(0.1)
            try:
                trial.report(result)
            except TypeError:
                raise luthier.TrialPruned() from None
            return 0.3

        return objective

    for result in [*malformed, None, {"other": 1.0}]:
        assert only(returned, returning(result)).failure.startswith("BAD_OUTPUT"), result
    for result in malformed:
        assert only(reported, reporting(result)).failure.startswith("BAD_OUTPUT"), result
        assert only(pruned, giving_up(result)).failure.startswith("BAD_OUTPUT"), result
    trial = only(reported, lambda t: (t.report(0.1), t.report(0.2, step=1.5), 0.3)[2])
    assert trial.failure.startswith("BAD_OUTPUT: step")
    assert not any(study.get_trials(["COMPLETE"]) for study in (returned, reported, pruned))


def test_a_good_report_stands_for_a_malformed_one_before_it(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)

    def objective(trial: luthier.Trial) -> float:
        with pytest.raises(TypeError):
            trial.report("0.2")  # type: ignore[arg-type]
        trial.report(0.25)
        raise luthier.TrialPruned()

    trial = only(study, objective)
    assert (trial.state, trial.value) == ("PRUNED", 0.25)


def test_a_report_that_a_prune_of_one_that_is_not_finite_follows(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)

    def objective(trial: luthier.Trial) -> float:
        trial.report(0.1)
        trial.report(float("nan"))
        raise luthier.TrialPruned()

    assert only(study, objective).failure.startswith("NON_FINITE")


def test_reports_that_the_service_refuses_are_malformed(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)
    refused: list[dict[str, Any]] = [
        {"value": 0.1, "step": -1}, {"value": None}, {"value": {}}, {"checkpoint": "c"},
        {"value": 0.1, "checkpoint": "c" * 2000},
    ]  # fmt: skip
    for given in refused:
        trial = only(study, lambda trial: (trial.report(0.2, step=1), trial.report(**{"step": 2, **given}), 0.3)[2])
        assert trial.failure.startswith("BAD_OUTPUT"), given


def test_a_step_that_was_reported_before_costs_nothing(name: str, session_db: str, caplog: Any) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)

    def objective(trial: luthier.Trial) -> float:
        assert [trial.report(value, step=1) for value in (0.1, 0.2, 0.3)] == ["CONTINUE"] * 3
        raise luthier.TrialPruned()

    trial = only(study, objective)
    assert (trial.state, trial.value, study.trial(1).intermediate_values) == ("PRUNED", 0.3, {1: 0.1})
    assert caplog.text.count("step 1 was reported before; the first report counts") == 1


def test_a_gradient_that_is_not_finite_leaves_its_report(name: str, session_db: str, caplog: Any) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)
    trial = only(study, lambda trial: (trial.report(0.1, gradient={"x": float("inf")}), 0.3)[1])
    assert (trial.value, study.trial(1).intermediate_values) == (0.3, {1: 0.1})
    assert "a gradient is not finite" in caplog.text


def test_a_curve_of_very_many_points_costs_nothing(name: str, session_db: str, caplog: Any) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)

    def objective(trial: luthier.Trial) -> float:
        request = _wire.message("ReportRequest")(trial=trial.name, token=trial._lease.token)
        for begin in range(0, 10_000, 1000):
            points = [_wire.message("Measurement")(step=begin + i, metrics={"value": 1.0}) for i in range(1000)]
            del request.measurements[:]
            request.measurements.extend(points)
            study._client.call("WorkerService", "Report", request)
        for step in (10_000, 10_001):
            assert trial.report(0.1, step=step) == "CONTINUE"
        return 0.5

    assert only(study, objective).value == 0.5
    assert caplog.text.count("more than 10000 intermediate points") == 1


def test_numbers_of_pandas_and_beyond_the_largest(name: str, session_db: str) -> None:
    pandas = pytest.importorskip("pandas")
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)
    one = pandas.Series([0.5])
    trial = only(study, lambda trial: {"value": one, "frame": one.to_frame(), "large": 10**400})
    assert trial.metrics == {"value": 0.5, "large": float("inf")}
    assert only(study, lambda trial: -(10**400)).failure.startswith("NON_FINITE")


class Unspeakable:
    """A value that raises where it is shown or converted."""

    def __repr__(self) -> str:
        raise ZeroDivisionError

    __float__ = __repr__  # type: ignore[assignment]


def test_no_attribute_and_no_extra_costs_the_trial(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)

    def objective(trial: luthier.Trial) -> Any:
        trial.set_user_attr("large", "x" * 5_000_000)
        trial.set_user_attr(5, 1)  # type: ignore[arg-type]
        trial.set_user_attr("half", "\ud800")
        trial.set_user_attr("\ud800", 1)
        trial.set_user_attr("none", Unspeakable())
        trial.set_attribute("half-2", "\ud800")
        return {"value": 0.5, "beside": Unspeakable()}

    trial = only(study, objective)
    assert trial.value == 0.5 and "Unspeakable" in trial.user_attrs.pop("none")
    kept = {key: value for key, value in trial.user_attrs.items() if key != "none"}
    assert kept == {"5": 1, "half": "\\ud800", "\\ud800": 1, "half-2": "\\ud800"}


def test_attributes_of_numpy(name: str, session_db: str) -> None:
    np = pytest.importorskip("numpy")
    given = {
        "i": np.int64(12), "b": np.bool_(True), "f": np.float32(0.5), "zero": np.array(3), "s": np.str_("x"),
        "a": np.arange(3), "d": {np.int64(1): [np.float64(0.5), (np.int8(2),)]}, "none": None,
    }  # fmt: skip
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)

    def objective(trial: luthier.Trial) -> float:
        for key, value in given.items():
            trial.set_user_attr(key, value)
        trial.set_attribute("n", np.int64(4))
        return 1.0

    assert only(study, objective).user_attrs == {
        "i": 12, "b": True, "f": 0.5, "zero": 3, "s": "x", "a": [0, 1, 2], "d": {"1": [0.5, [2]]}, "none": None, "n": 4
    }  # fmt: skip
    study.set_attributes(1, {"later": np.float64(2.5)})
    assert study.trials[0].user_attrs["later"] == 2.5
    with pytest.raises(TypeError, match="JSON"):
        study.set_attributes(1, {"later": {1, 2}})
    study.add_trials([{"params": {"x": np.float32(0.5)}, "value": np.float64(1), "attributes": {"n": np.int64(3)}}])
    assert study.trials[-1].user_attrs == {"n": 3}


def test_attributes_that_can_not_be_kept_never_cost_the_trial(
    name: str, session_db: str, caplog: pytest.LogCaptureFixture
) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)

    def objective(trial: luthier.Trial) -> float:
        trial.set_user_attr("path", Path("/x"))
        trial.set_user_attr("huge", "x" * 70_000)
        return 1.0

    trial = only(study, objective)
    assert trial.value == 1.0 and trial.user_attrs == {"path": "PosixPath('/x')"}
    assert "'path' is PosixPath, which JSON can't say" in caplog.text and "'huge' is left out" in caplog.text


def test_settings_of_numpy_before_the_space_is_known(name: str, session_db: str) -> None:
    np = pytest.importorskip("numpy")
    study = luthier.study(name, db=session_db)
    study.enqueue({"n": np.int64(3), "f": np.float32(0.5)})
    assert only(study, lambda t: t.suggest_int("n", 1, 9) + t.suggest_float("f", 0, 1)).params == {"n": 3, "f": 0.5}


RESULTS: dict[int, Any] = {1: {"loss": 0.5, "status": "ok", "c": [[1]]}, 2: {"loss": "0.5"}, 3: float("nan")}


@luthier.objective(space={"x": luthier.Float(0, 1)}, metric="loss", algorithm="random", max_trials=5)
def _results(trial: Any) -> Any:
    trial.report(0.1, step=1)
    if trial.number == 4:
        trial.report("0.2", step=2)
    if trial.number == 5:
        try:
            trial.report([0.2], step=2)
        except TypeError:
            raise luthier.TrialPruned() from None
    return RESULTS[trial.number]


def test_results_by_the_worker(db: str) -> None:
    study = _results.tune(db=db, python=sys.executable)
    first, *others = study.trials
    assert (first.value, first.metrics) == (0.5, {"loss": 0.5}), first.failure
    assert [t.failure.partition(":")[0] for t in others] == ["BAD_OUTPUT", "NON_FINITE", "BAD_OUTPUT", "BAD_OUTPUT"]
    assert "0.2" in others[2].failure


def test_the_notes_of_an_objective_of_a_loop(name: str, session_db: str, caplog: pytest.LogCaptureFixture) -> None:
    import asyncio

    import luthier.aio

    async def main() -> list[luthier.FrozenTrial]:
        study = await luthier.aio.study(name, {"x": (0.0, 1.0)}, db=session_db)

        async def reporting(trial: Any) -> float:
            await trial.report(0.1)
            await trial.report("0.2")
            return 0.3

        await study.optimize(lambda t: {"value": 0.5, "status": "ok"}, n_trials=1)
        await study.optimize(reporting, n_trials=1)
        trial = await study.ask()
        assert "status" in (await study.tell(trial, {"value": 0.4, "status": "ok"}))[0]
        return await study.trials

    with caplog.at_level(logging.WARNING, "luthier"):
        first, second, third = asyncio.run(main())
    assert (first.value, third.value) == (0.5, 0.4) and second.failure.startswith("BAD_OUTPUT")
    assert "status" in caplog.text
