"""Kills of a coordinator whose studies have several objectives, bounds, rungs and gradients of every metric; results that
never come, never differ, or are no numbers."""

from __future__ import annotations

import json
import math
import random
import uuid
from pathlib import Path
from typing import Any

import attack
import grpc
import pytest

KILLS = 6
ALGORITHMS: dict[str, dict[str, Any]] = {
    "nsga2": {"nsga2": {"population": 6}},
    "asha": {"asha": {"sampler": {"nsga2": {"population": 6}}}},
    "stop": {"asha": {"variant": "STOP"}},
    "fobo": {"fobo": {}},
}


def spec(algorithm: str, trials: int) -> dict[str, Any]:
    """A study of two objectives and a bound."""
    return {
        "space": [{"name": name, "float": {"min": 0, "max": 1}} for name in ("x", "y")],
        "metrics": [
            {"name": "f", "goal": "MINIMIZE"}, {"name": "g", "goal": "MAXIMIZE"}, {"name": "h", "at_most": 1.2}
        ],
        "algorithm": ALGORITHMS[algorithm],
        "budget": {"max_trials": trials},
        "seed": 5,
        **({"resource": {"min": 1, "max": 9}} if algorithm in ("asha", "stop") else {}),
    }  # fmt: skip


def measured(lease: Any, step: int) -> dict[str, Any]:
    """What a step of a trial comes to, with the gradients of the final one."""
    x, y = (lease.trial.parameters[name] for name in ("x", "y"))
    late = 1 / max(step, 1)
    values = {"f": x + late, "g": -(y + (x - 0.5) ** 2) - late, "h": x + y}
    gradients = {"f": [1, 0], "g": [-2 * (x - 0.5), -1], "h": [1, 1], "undeclared": [0, 0]}
    whole = {name: {"full": {"values": entries}} for name, entries in gradients.items()}
    return {"step": step, "metrics": values, "gradients": whole}


class Survivor:
    """Workers of a coordinator that is killed again and again, who send again what may be lost."""

    def __init__(self, coordinator: attack.Coordinator, rng: random.Random) -> None:
        self.coordinator, self.rng = coordinator, rng
        self.caller = coordinator.caller(coordinator.admin_token)

    def call(self, method: str, **fields: Any) -> Any:
        """Makes a call; where the coordinator died on the way, again."""
        for _ in range(20):
            try:
                return self.caller.call(method, **fields)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE or self.coordinator.alive():
                    raise
                self.revive()
        raise AssertionError(f"{method} was never answered")

    def revive(self) -> None:
        """Starts the coordinator again, on a port that may be another."""
        self.coordinator.start()
        self.caller.close()
        self.caller = self.coordinator.caller(self.coordinator.admin_token)

    def lease(self, study: str) -> Any:
        """The next trial; None once there is none."""
        try:
            request = str(uuid.uuid4())
            leases = self.call("WorkerService/Suggest", study=attack.name_of(study), worker="w", count=1,
                               request_id=request).leases
        except grpc.RpcError as error:
            assert error.code() in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.OUT_OF_RANGE), error
            return None
        return leases[0] if leases else None

    def train(self, lease: Any) -> None:
        """Reports a trial to its target, or ends it."""
        target = lease.trial.provenance.resource
        for trial in lease.trial.promotions:
            target = max(target, trial.resource)
        held = {"trial": lease.trial.name, "token": lease.token}
        step = 0
        for step in range(1, target + 1):
            reply = self.call("WorkerService/Report", **held, measurements=[_message(measured(lease, step))])
            if reply.directive == type(reply).DESCRIPTOR.fields_by_name["directive"].enum_type.values_by_name[
                "STOP"
            ].number:  # fmt: skip
                return
        self.call("WorkerService/Complete", **held, measurement=measured(lease, step), paused=0 < target < 9)


def _message(measurement: dict[str, Any]) -> Any:
    from google.protobuf import json_format
    from luthier.v1 import trial_pb2

    return json_format.ParseDict(measurement, trial_pb2.Measurement())


def create(coordinator: attack.Coordinator, folder: Path, name: str, of: dict[str, Any]) -> None:
    """Creates a study of a file."""
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps(of))
    attack.run("luthier", "study", "create", "--name", name, "-f", file, "--server", coordinator.own_socket)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_kills_change_no_suggestion(algorithm: str, tmp_path: Path, rng: random.Random) -> None:
    trials = 20 if algorithm == "fobo" else 40
    with attack.Coordinator(tmp_path) as coordinator:
        create(coordinator, tmp_path, "s", spec(algorithm, trials))
        workers = Survivor(coordinator, rng)
        kills = set(rng.sample(range(2, trials), KILLS))
        held: list[Any] = []
        asked = 0
        while True:
            if asked in kills:
                kills.remove(asked)
                coordinator.kill()
            lease = workers.lease("s")
            if lease is not None:
                held.append(lease)
                asked += 1
            if held and (lease is None or len(held) >= 3):
                workers.train(held.pop(rng.randrange(len(held))))
            elif lease is None:
                break
        rows = workers.caller.trials("s")
        assert len(rows) == trials
        complete = [row for row in rows if row.state == type(row).COMPLETE]
        assert len(complete) >= (4 if algorithm in ("asha", "stop") else trials)
        for row in complete:
            assert set(row.final_measurement.gradients) == {"g", "h"}, "the third is that of the first objective"
            assert list(row.final_measurement.gradient.full.values) == [1, 0]
        study = workers.call("StudyService/GetStudy", name=attack.name_of("s"))
        assert study.front and study.hypervolume > 0
        explained = workers.call("StudyService/ExplainTrial", name=complete[-1].name)
        assert [one.metric for one in explained.expectations] == (["f", "g", "h"] if algorithm == "fobo" else [])
        coordinator.stop()
        print(attack.run("luthier", "verify-replay", "--db", coordinator.data).stdout)


def test_metrics_that_never_come_and_never_differ(tmp_path: Path, rng: random.Random) -> None:
    """Eight metrics, one of which is always the same; then one that is never a number, so that every trial fails."""
    with attack.Coordinator(tmp_path) as coordinator:
        workers = Survivor(coordinator, rng)
        for algorithm in ("nsga2", "fobo", "auto"):
            for broken in (False, True):
                name = f"{algorithm}-{'nan' if broken else 'constant'}"
                of = spec("nsga2", 14)
                of["algorithm"] = {"nsga2": {"population": 4}} if algorithm == "nsga2" else {algorithm: {}}
                of["metrics"] = [{"name": f"m{i}", "goal": "MINIMIZE"} for i in range(8)]
                create(coordinator, tmp_path, name, of)
                for _ in range(14):
                    lease = workers.lease(name)
                    x = lease.trial.parameters["x"]
                    metrics: dict[str, Any] = {f"m{i}": abs(x - i / 8) for i in range(8)}
                    metrics["m3"] = "NaN" if broken else 7.0
                    workers.call("WorkerService/Complete", trial=lease.trial.name, token=lease.token,
                                 measurement={"metrics": metrics})
                states = {row.state for row in workers.caller.trials(name)}
                row = type(workers.caller.trials(name)[0])
                assert states == {row.FAILED if broken else row.COMPLETE}
                study = workers.call("StudyService/GetStudy", name=attack.name_of(name))
                assert bool(study.front) != broken
                assert math.isfinite(study.hypervolume)
        coordinator.stop()
        attack.run("luthier", "verify-replay", "--db", coordinator.data)
