"""Somebody sets the wall clock, by a second or by twenty years, while the coordinator runs and before it starts again."""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attack import BIN, PATIENCE, Caller, Coordinator, messages_of, name_of, spec, wait_for

DAY = 86400.0
YEAR = 365 * DAY
STEPS = {"+1s": 1.0, "-1s": -1.0, "+3d": 3 * DAY, "-3d": -3 * DAY, "+20y": 20 * YEAR, "-20y": -20 * YEAR}


class WallClock:
    """The wall clock of the programs that get its environment; wall_clock.c says how."""

    def __init__(self, folder: Path) -> None:
        library = folder / "wall_clock.so"
        source = Path(__file__).with_name("wall_clock.c")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread"], check=True)
        self.file = folder / "wall_clock"
        self.set(0.0)
        # A sanitizer's runtime comes first in its programs, and minds.
        self.environment = {"LD_PRELOAD": str(library), "LUTHIER_WALL_CLOCK": str(self.file),
                            "ASAN_OPTIONS": "verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", "")}

    def set(self, offset: float) -> None:
        """Makes the clock wrong by so many seconds."""
        with open(self.file, "r+b" if self.file.exists() else "w+b") as file:
            file.write(struct.pack("=q", int(offset * 1e9)))


@pytest.fixture()
def clock(tmp_path: Path) -> WallClock:
    return WallClock(tmp_path)


@pytest.fixture()
def served(tmp_path: Path, clock: WallClock) -> Iterator[Coordinator]:
    """A coordinator by that clock, without tokens: their ends are dates."""
    with Coordinator(tmp_path, environment=clock.environment) as made:
        yield made


def owner(coordinator: Coordinator) -> Caller:
    return coordinator.caller(address=coordinator.own_socket)


def branin() -> Any:
    """A study that a worker evaluates by itself, twice."""
    made = spec(max_trials=2)
    made.space[0].name, made.space[1].name = "x1", "x2"
    for parameter, (low, high) in zip(made.space, ((-5, 10), (0, 15))):
        getattr(parameter, "float").min, getattr(parameter, "float").max = low, high
    made.metric.name = "value"
    made.objective.builtin.model = "function:branin"
    return made


class Repeated:
    """Requests with an id, each sent again and again: the answer must stay what it was, to the byte."""

    def __init__(self, caller: Caller) -> None:
        self.first: dict[str, tuple[str, bytes, bytes]] = {}
        self.send_all_of(caller)

    def send(self, caller: Caller, method: str, **fields: Any) -> bytes:
        request = caller._request(method, None, {"request_id": f"id-{len(self.first)}", **fields}).SerializeToString()
        path = f"/luthier.v1.{method}"
        answer = caller.raw(path, request)
        self.first[f"{len(self.first)} {method}"] = (path, request, answer)
        return answer

    def send_all_of(self, caller: Caller) -> None:
        from luthier.v1 import study_service_pb2, trial_pb2, worker_service_pb2

        name = name_of("s")
        caller.create_study("s", parameters=12)
        suggested = worker_service_pb2.SuggestResponse()
        suggested.ParseFromString(self.send(caller, "WorkerService/Suggest", study=name, worker="w", count=3))
        self.leases = list(suggested.leases)
        caller.call("WorkerService/Fail", trial=self.leases[0].trial.name, token=self.leases[0].token,
                    failure={"kind": "CONFIG", "reason": "EXIT_CODE"})
        trial = study_service_pb2.EnqueueTrialsRequest().trials.add()
        for i in range(12):
            trial.parameters[f"x{i}"] = 0.5
            trial.attributes[f"note {i}"] = "of many"
        self.send(caller, "StudyService/EnqueueTrials", parent=name, trials=[trial, trial])
        result = trial_pb2.Trial(state=trial_pb2.Trial.COMPLETE, parameters=trial.parameters)
        result.final_measurement.metrics["loss"] = 0.5
        self.send(caller, "StudyService/ImportTrials", parent=name, trials=[result])
        self.send(caller, "StudyService/RetryTrials", parent=name, numbers=[self.leases[0].trial.number])
        self.send(caller, "StudyService/UpdateStudy", name=name, spec={"description": "once"},
                  update_mask=mask("description"))
        self.send(caller, "StudyService/PauseStudy", name=name)
        self.send(caller, "StudyService/ResumeStudy", name=name)

    def assert_same(self, caller: Caller) -> None:
        for what, (path, request, answer) in self.first.items():
            assert caller.raw(path, request) == answer, what


def mask(*paths: str) -> Any:
    from google.protobuf import field_mask_pb2

    return field_mask_pb2.FieldMask(paths=paths)


def change_everything(caller: Caller, round_: int) -> None:
    """Whatever a first answer told is another now."""
    lease, = caller.suggest("s")
    caller.complete(lease, float(round_))
    caller.call("StudyService/UpdateStudy", name=name_of("s"), spec={"description": f"change {round_}", "weight": 2.5},
                update_mask=mask("description", "weight"))
    for number in (1, 2, 4, 5):
        noted = messages_of("StudyService").SetAttributesRequest(name=f"{name_of('s')}/trials/{number}")
        noted.attributes["round"] = str(round_)
        caller.call("StudyService/SetAttributes", noted)


def test_the_clock_of_the_programs_is_ours(served: Coordinator, clock: WallClock) -> None:
    caller = owner(served)
    for study, offset in (("now", 0.0), ("later", 20 * YEAR), ("earlier", -20 * YEAR)):
        clock.set(offset)
        made = caller.create_study(study).create_time.seconds
        assert abs(made - (time.time() + offset)) < 60, study


def test_no_step_forgets_a_request_or_ends_a_lease(served: Coordinator, clock: WallClock) -> None:
    caller = owner(served)
    repeated = Repeated(caller)
    tokens = [lease.token for lease in repeated.leases[1:]]
    for round_, (what, step) in enumerate(STEPS.items()):
        clock.set(step)
        change_everything(caller, round_)
        repeated.assert_same(caller)
        beat = caller.call("WorkerService/Heartbeat", worker="w", tokens=tokens)
        assert [int(d) for d in beat.directives] == [1, 1], f"{what}: a lease is gone"
        if round_ % 2 == 0:
            served.kill()
        else:
            assert served.stop() == 0
        clock.set(-step)
        served.start()
        caller.close()
        caller = owner(served)
        repeated.assert_same(caller)
        beat = caller.call("WorkerService/Heartbeat", worker="w", tokens=tokens)
        assert [int(d) for d in beat.directives] == [1, 1], f"{what}, then back over a restart: a lease is gone"
    assert len([t for t in caller.trials("s") if t.state == 2]) == 2, "nothing runs but the two leases"


def test_a_waiting_ask_waits_its_time(served: Coordinator, clock: WallClock) -> None:
    caller = owner(served)
    caller.create_study("s", max_trials=1)
    caller.suggest("s")
    for step in (20 * YEAR, -20 * YEAR, 0.0):
        begun = time.monotonic()
        asked = caller.future("WorkerService/Suggest", study=name_of("s"), worker="v", request_id=f"ask{step}",
                              timeout=1.5)
        time.sleep(0.3)
        clock.set(step)
        assert not asked.result(timeout=PATIENCE).leases
        assert 1.0 < time.monotonic() - begun < 1.6, f"the clock was set to {step:+.0f} s"


def test_no_step_ends_a_study_with_a_limit_of_time(served: Coordinator, clock: WallClock) -> None:
    caller = owner(served)
    limited = spec()
    limited.budget.max_wall.seconds = 3600
    caller.call("StudyService/CreateStudy", study_id="s", spec=limited)
    lease, = caller.suggest("s")
    for step in STEPS.values():
        clock.set(step)
        assert caller.call("WorkerService/Heartbeat", worker="w", tokens=[lease.token]).directives[0] == 1
    served.kill()
    served.start()
    assert owner(served).call("StudyService/GetStudy", name=name_of("s")).state == 1
    assert owner(served).suggest("s")


def test_a_worker_comes_back_whatever_its_clock_says_meanwhile(tmp_path: Path, served: Coordinator,
                                                               clock: WallClock) -> None:
    """Its pauses between attempts to connect are times, not moments of the wall clock."""
    command = [BIN / "luthier-worker", "--server", served.own_socket, "--spool", tmp_path / "spool", "--name", "w",
               "--commands-from", "none"]
    with open(tmp_path / "worker.log", "wb") as log:
        worker = subprocess.Popen(command, env={**os.environ, **clock.environment}, stderr=log)
    try:
        for n, (what, step) in enumerate(STEPS.items()):
            caller = owner(served)
            caller.call("StudyService/CreateStudy", study_id=f"s{n}", spec=branin())
            wait_for(lambda: caller.call("StudyService/GetStudy", name=name_of(f"s{n}")).trials.complete == 2,
                     f"a study after {what} of the clock while the coordinator was away")
            caller.close()
            served.kill()
            wait_for(lambda: (tmp_path / "worker.log").read_text().count("coordinator_away") == n + 1,
                     "the worker to notice")
            clock.set(step)
            served.start()
    finally:
        worker.kill()
        worker.wait()
