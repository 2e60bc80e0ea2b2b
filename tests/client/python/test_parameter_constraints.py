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
