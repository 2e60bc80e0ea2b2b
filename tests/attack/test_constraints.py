"""Constraints on parameters: what contradicts itself or the space is refused by its field, and no setting that breaks one
is asked for, stored or tried again, whatever kills the coordinator."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from attack import Caller, Coordinator, name_of, run, spec, wait_for

# Beside x0 and x1 of attack.spec: labels, an int that exists with one of them only, a switch.
MORE = [
    {"name": "kind", "categorical": {"values": ["plain", "wide"]}},
    {"name": "width", "int": {"min": 1, "max": 100}, "condition": {"parent": "kind", "values": ["wide"]}},
    {"name": "flag", "bool": {}},
]
KEEP = [
    {"sum": {"x0": 1, "x1": 1}, "at_most": 0.5},
    {"sum": {"width": 1, "x0": 100}, "at_most": 60},
    {"forbid": {"kind": "wide", "flag": True, "width": {"at_least": 5}}},
]


def constrained(constraints: list[dict[str, Any]], algorithm: str = "random", **changes: Any) -> Any:
    """A StudySpec with these constraints."""
    from google.protobuf.json_format import ParseDict

    made = spec(algorithm=algorithm, **changes)
    for parameter in MORE:
        ParseDict(parameter, made.space.add())
    for constraint in constraints:
        ParseDict(constraint, made.constraints.add())
    return made


def legal(parameters: Any) -> bool:
    """Whether a setting keeps KEEP, by an arithmetic of this test."""
    width = parameters["width"] if "width" in parameters else 0
    both = parameters["kind"] == "wide" and parameters["flag"] and width >= 5
    return parameters["x0"] + parameters["x1"] <= 0.5 and width + 100 * parameters["x0"] <= 60 and not both


def refusal(caller: Caller, made: Any, study: str = "refused") -> str:
    """What CreateStudy says against a spec."""
    error = caller.error("StudyService/CreateStudy", study_id=study, spec=made)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
    return error.details()


@pytest.fixture()
def caller(coordinator: Coordinator) -> Caller:
    """Somebody who may do everything."""
    return coordinator.caller(coordinator.admin_token)


def test_what_contradicts_itself_or_the_space_is_refused_by_its_field(caller: Caller) -> None:
    faults: list[tuple[dict[str, Any], str]] = [
        ({"sum": {"x0": 1}, "at_least": 0.7, "at_most": 0.3}, "spec.constraints[0].at_least: 0.7 is above at_most"),
        ({"sum": {"x0": 1}}, "spec.constraints[0]: bounds nothing"),
        ({}, "spec.constraints[0]: is empty"),
        ({"sum": {"y": 1}, "at_most": 1}, "spec.constraints[0].sum.y: is no parameter of the study"),
        ({"sum": {"kind": 1}, "at_most": 1}, "spec.constraints[0].sum.kind: is no number"),
        ({"sum": {"x0": 0}, "at_most": 1}, "spec.constraints[0].sum.x0: has weight 0"),
        ({"sum": {"x0": "NaN"}, "at_most": 1}, "spec.constraints[0].sum.x0: has weight NaN"),
        ({"sum": {"x0": 1}, "at_most": "Infinity"}, "spec.constraints[0].at_most: must be finite"),
        ({"forbid": {"kind": "narrow"}}, "spec.constraints[0].forbid.kind: "),
        ({"forbid": {"kind": {"at_least": 1}}}, "spec.constraints[0].forbid.kind: has no ranges"),
        ({"forbid": {"width": {"at_least": 200}}}, "spec.constraints[0].forbid.width: names a range that has no value"),
        ({"forbid": {"width": {"least": 2}}}, 'spec.constraints[0].forbid.width: has no field "least"'),
        ({"forbid": {"width": {"at_least": "2"}}}, "spec.constraints[0].forbid.width.at_least: must be a number"),
        ({"forbid": {"width": [[1, 2]]}}, "spec.constraints[0].forbid.width[0]: is a list within a list"),
        ({"forbid": {"width": None}}, "spec.constraints[0].forbid.width: is null"),
        ({"forbid": {"a\nb": 1}}, 'spec.constraints[0].forbid["a\\x0ab"]: is no parameter'),
        ({"sum": {"x0": 1}, "at_most": 1, "forbid": {"flag": True}}, "spec.constraints[0]: has both sum and forbid"),
    ]
    for constraint, message in faults:
        assert message in refusal(caller, constrained([constraint])), constraint
    assert "is the same as constraints[0]" in refusal(caller, constrained([KEEP[0], KEEP[0]]))
    many = [{"sum": {"x0": 1.0 + i}, "at_most": 1000} for i in range(65)]
    assert "spec.constraints: has 65 entries; at most 64" in refusal(caller, constrained(many))
    opened = constrained([KEEP[0]])
    opened.open_space = True
    assert "open_space: does not go with constraints" in refusal(caller, opened)
    for algorithm in ("harmonica", "hoag", "projected_gradient", "iterdiff"):
        said = refusal(caller, constrained([KEEP[0]], algorithm))
        assert f"{algorithm} does not take constraints on parameters; use one of asha, bo," in said


def test_a_space_of_which_nothing_is_left_is_refused_with_its_share(caller: Caller) -> None:
    # A share of 10^-6 by 64 constraints, and none by two that contradict each other.
    corner = [{"sum": {"x0": 1.0}, "at_most": 1e-3}, {"sum": {"x1": 1.0}, "at_most": 1e-3}]
    idle = [{"sum": {"x0": 1.0, "x1": 1.0 + i}, "at_most": 100.0 + i} for i in range(62)]
    said = refusal(caller, constrained(corner + idle))
    assert "constraints: leave too little of the space: 0 of 10000 random settings keep them all" in said
    against = [{"sum": {"x0": 1.0}, "at_most": 0.3}, {"sum": {"x0": 1.0}, "at_least": 0.7}]
    assert "0 of 10000" in refusal(caller, constrained(against))
    made = caller.call("StudyService/CreateStudy", study_id="taken", spec=constrained(KEEP + idle[:61]))
    assert 0.03 < made.legal_share < 0.12
    assert caller.call("StudyService/GetStudy", name=name_of("taken")).legal_share == made.legal_share
    assert not caller.create_study("free").HasField("legal_share")


def test_illegal_settings_of_others_are_refused_by_their_place(caller: Caller) -> None:
    from luthier.v1 import study_service_pb2

    caller.call("StudyService/CreateStudy", study_id="s", spec=constrained(KEEP))
    good = {"x0": 0.1, "x1": 0.2, "kind": "wide", "width": 4, "flag": True}
    sentence = "x0 + x1 is 0.7, and constraints[0] allows at most 0.5"
    forbidden = "constraints[2] forbids flag true with kind wide with width 5"
    for bad, why in (({**good, "x0": 0.5}, sentence), ({**good, "width": 5}, forbidden)):
        enqueue = study_service_pb2.EnqueueTrialsRequest(parent=name_of("s"))
        imports = study_service_pb2.ImportTrialsRequest(parent=name_of("s"))
        for setting in (good, bad):
            enqueue.trials.add().parameters.update(setting)
            row = imports.trials.add(state="FAILED")
            row.parameters.update(setting)
        for method, request in (("EnqueueTrials", enqueue), ("ImportTrials", imports)):
            error = caller.error(f"StudyService/{method}", request)
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert f"trials[1].parameters: {why}" in error.details()
    assert not caller.trials("s"), "a request with one illegal setting stores nothing"
    # What comes back was legal, and may be tried again.
    [lease] = caller.suggest("s")
    caller.call("WorkerService/Fail", trial=lease.trial.name, token=lease.token,
                failure={"kind": "CONFIG", "reason": "BAD", "message": "no"})
    again = caller.call("StudyService/RetryTrials", parent=name_of("s"), all_failed=True)
    assert len(again.trials) == 1 and again.trials[0].parameters == lease.trial.parameters
    assert legal(again.trials[0].parameters)


def test_they_stay_as_they_are(caller: Caller) -> None:
    from luthier.v1 import study_service_pb2

    made = constrained(KEEP)
    caller.call("StudyService/CreateStudy", study_id="s", spec=made)
    request = study_service_pb2.UpdateStudyRequest(name=name_of("s"), spec=constrained([]))
    request.update_mask.paths.append("constraints")
    error = caller.error("StudyService/UpdateStudy", request)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert '"constraints" of a study can\'t be changed' in error.details()
    error = caller.error("StudyService/CreateStudy", study_id="s", spec=constrained(KEEP[:1]))
    assert "they first differ in constraints" in error.details()
    assert caller.call("StudyService/CreateStudy", study_id="s", spec=made).name == name_of("s")


ALGORITHMS = ["auto", "random", "sobol", "halton", "grid", "tpe", "cma_es", "hbo", "bo"]


def test_kills_change_nothing(tmp_path: Path, rng: random.Random) -> None:
    with Coordinator(tmp_path) as coordinator:
        connect: Callable[[], Caller] = lambda: coordinator.caller(coordinator.admin_token)
        caller = connect()
        for algorithm in ALGORITHMS:
            caller.call("StudyService/CreateStudy", study_id=algorithm.replace("_", "-"),
                        spec=constrained(KEEP, algorithm))
        for turn in range(6):
            for algorithm in ALGORITHMS:
                study = algorithm.replace("_", "-")
                for lease in caller.suggest(study, 4, timeout=60):
                    assert legal(lease.trial.parameters), (algorithm, lease.trial)
                    if rng.random() < 0.9:
                        caller.complete(lease, (lease.trial.parameters["x0"] - 0.4) ** 2 + lease.trial.parameters["x1"])
            if turn in (1, 3):
                coordinator.kill()
                coordinator.start()
                caller = connect()
                wait_for(lambda: caller.call("StudyService/GetStudy", name=name_of("auto")), "the coordinator")
        for algorithm in ALGORITHMS:
            rows = caller.trials(algorithm.replace("_", "-"))
            assert len(rows) >= 24 and all(legal(row.parameters) for row in rows)
            assert not [row.number for row in rows if row.provenance.origin == "legal"], algorithm
        coordinator.kill()
        replay = run("luthier", "verify-replay", "--db", coordinator.data, check=False, timeout=120)
        assert replay.returncode == 0, replay.stdout + replay.stderr


FILE = """
space:
  - {name: width1, int: {min: 8, max: 1024, scale: LOG}}
  - {name: width2, int: {min: 8, max: 1024, scale: LOG}}
  - {name: optimizer, categorical: {values: [sgd, adam]}}
  - {name: rate, float: {min: 1.0e-5, max: 1, scale: LOG}}
constraints:
  - {sum: {width1: 1, width2: 1}, at_most: 1024}
  - {forbid: {optimizer: [sgd], rate: {at_least: 0.1}}}
metric: {name: loss, goal: MINIMIZE}
"""


def test_study_files_and_the_command_line(coordinator: Coordinator, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(FILE)
    where = ("--server", coordinator.own_socket)
    created = run("luthier", "study", "create", "-f", file, "--name", "files", *where)
    assert "% of random settings keep the constraints" in created.stderr
    assert "% of random settings keep the constraints" in run("luthier", "study", "preview", file).stdout
    shown = run("luthier", "study", "get", "files", *where).stdout
    assert "% of random settings keep the constraints" in shown
    assert "at_most: 1024" in shown and "at_least: 0.1" in shown
    setting = [word for pair in ("width1=1000", "width2=30", "optimizer=adam", "rate=0.2") for word in ("--set", pair)]
    added = run("luthier", "trial", "add", "files", *setting, *where, check=False)
    assert added.returncode != 0
    assert "width1 + width2 is 1,030, and constraints[0] allows at most 1,024" in added.stderr
    file.write_text(FILE.replace("at_most: 1024", "at_most: 1024, at_least: 2000"))
    refused = run("luthier", "study", "create", "-f", file, "--name", "other", *where, check=False)
    assert "study.yaml:8:" in refused.stderr and "constraints[0].at_least: 2000 is above at_most, 1024" in refused.stderr
