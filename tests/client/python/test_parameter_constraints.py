"""Constraints on parameters: parameter_constraints of luthier.study."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import luthier
import luthier.aio

SPACE = {"width": luthier.Int(1, 2000), "depth": luthier.Int(1, 2000), "kind": luthier.Categorical(["sgd", "adam"])}
KEEP: list[dict[str, Any]] = [
    {"sum": {"width": 1, "depth": 1}, "at_most": 1024},
    {"forbid": {"kind": "sgd", "width": {"at_least": 100}}},
]


def legal(params: dict[str, Any]) -> bool:
    """Whether a setting keeps KEEP."""
    return params["width"] + params["depth"] <= 1024 and not (params["kind"] == "sgd" and params["width"] >= 100)


def test_settings_keep_them(name: str, session_db: str) -> None:
    study = luthier.study(name, SPACE, algorithm="random", parameter_constraints=KEEP, max_trials=40, db=session_db)
    study.optimize(lambda trial: float(trial["width"] - trial["depth"]), n_trials=30)
    assert len(study.trials) == 30 and all(legal(trial.params) for trial in study.trials)
    again = luthier.study(name, SPACE, algorithm="random", parameter_constraints=tuple(KEEP), max_trials=40,
                          db=session_db)
    assert len(again.trials) == 30
    with pytest.raises(luthier.StudyExists, match="they first differ in constraints"):
        luthier.study(name, SPACE, algorithm="random", parameter_constraints=KEEP[:1], max_trials=40, db=session_db)


def test_illegal_settings_of_ones_own_are_refused(name: str, session_db: str) -> None:
    study = luthier.study(name, SPACE, algorithm="random", parameter_constraints=KEEP, db=session_db)
    with pytest.raises(luthier.BadField, match="depth \\+ width is 1,030, and constraints\\[0\\] allows at most 1,024"):
        study.enqueue({"width": 1000, "depth": 30, "kind": "adam"})
    with pytest.raises(luthier.BadField, match="constraints\\[1\\] forbids kind sgd with width 200"):
        study.enqueue({"width": 200, "depth": 30, "kind": "sgd"})
    study.enqueue({"width": 200, "depth": 30, "kind": "adam"})
    assert study.ask().params == {"width": 200, "depth": 30, "kind": "adam"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("sum", "it is a list of dictionaries"),
        ({"sum": {"width": 1}, "at_most": 3}, "it is a list of dictionaries"),
        ([3], r"parameter_constraints\[0\] is 3"),
        ([KEEP[0], {"sums": {}}], r"parameter_constraints\[1\] has no .*sums.*did you mean 'sum'"),
        ([{"sum": {"width": "much"}, "at_most": 3}], r"parameter_constraints\[0\]: "),
        ([{"sum": {"width": 1}, "at_most": 1, "at_least": 2}], r"constraints\[0\].at_least: 2 is above at_most, 1"),
        ([{"sum": {"with": 1}, "at_most": 1}], r'constraints\[0\].sum.with: is no parameter .*did you mean "width"'),
        ([{"sum": {"width": 1}, "at_most": 0}], "leave too little of the space: 0 of 10000"),
    ],
)
def test_what_is_wrong_is_said(name: str, session_db: str, given: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError, luthier.BadField), match=message):
        luthier.study(name, SPACE, parameter_constraints=given, db=session_db)


def test_event_loops_have_them(name: str, session_db: str) -> None:
    async def run() -> dict[str, Any]:
        study = await luthier.aio.study(name, SPACE, algorithm="random", parameter_constraints=KEEP, db=session_db)
        return dict((await study.ask()).params)

    assert legal(asyncio.run(run()))


@pytest.mark.parametrize(
    ("labels", "forbidden"),
    [
        ([1, "1"], "1"),
        ([1, "1"], 1),
        ([True, "true"], "true"),
        ([True, "true"], True),
        ([None, "null"], "null"),
        (["1", "2"], "1"),
        (["sqrt", None], None),
        ([0.5, "0.5", 1], [0.5, "0.5"]),
        (['"a"', "a"], '"a"'),
    ],
)
def test_labels_are_those_of_the_space(name: str, session_db: str, labels: list[Any], forbidden: Any) -> None:
    for kind, domain in (("c", luthier.Categorical(labels)), ("o", luthier.Ordinal(labels))):
        space = {"c": domain, "x": luthier.Float(0, 1)}
        study = luthier.study(
            f"{name}-{kind}", space, algorithm="random", parameter_constraints=[{"forbid": {"c": forbidden}}], db=session_db
        )
        wrong = forbidden if isinstance(forbidden, list) else [forbidden]
        left = {repr(label) for label in labels} - {repr(label) for label in wrong}
        assert {repr(trial.params["c"]) for trial in study.ask(20)} == left


def test_labels_that_are_none_are_refused_as_they_are(name: str, session_db: str) -> None:
    space = {"c": luthier.Categorical([16, "32", None]), "x": luthier.Float(0, 1)}
    for wrong in ("16", 32, "null", [16, "none"]):
        label = wrong[-1] if isinstance(wrong, list) else wrong
        said = rf"parameter_constraints\[0\].forbid: {label!r} is no label of 'c'; it has 16, '32', None"
        with pytest.raises(ValueError, match=said):
            luthier.study(name, space, parameter_constraints=[{"forbid": {"c": wrong}}], db=session_db)


def test_names_that_the_service_does_not_take(name: str, session_db: str) -> None:
    space = {"max depth": luthier.Int(1, 20), "kind of": luthier.Categorical(["a", "b"])}
    keep = [{"sum": {"max depth": 1}, "at_most": 10}, {"forbid": {"kind of": "a", "max depth": {"at_least": 3}}}]
    study = luthier.study(name, space, algorithm="random", parameter_constraints=keep, max_trials=20, db=session_db)
    for trial in study.ask(20):
        assert trial["max depth"] <= 10 and (trial["kind of"] == "b" or trial["max depth"] < 3)


def test_switches_are_true_or_false(name: str, session_db: str) -> None:
    study = luthier.study(name, {"on": luthier.Bool(), "x": luthier.Float(0, 1)}, db=session_db)
    for wrong in ("false", None, 2):
        with pytest.raises(TypeError, match=f"on is {wrong!r}: it is True or False"):
            study.enqueue({"on": wrong, "x": 0.5})
    study.enqueue({"on": 0, "x": 0.5})
    assert study.ask().params == {"on": False, "x": 0.5}
