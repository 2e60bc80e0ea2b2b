"""Replies that must be true, and work that must not hold up others: large answers, specs, lists, heavy models, and the end."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from attack import Coordinator, messages_of, name_of, run, spec

MIB = 1 << 20


def test_an_error_stored_nothing(coordinator: Coordinator) -> None:
    """Five kilobytes that ask for 60 MiB of defaults in the answer."""
    caller = coordinator.caller(coordinator.admin_token)
    caller.call("StudyService/CreateStudy", study_id="wide", spec=spec(parameters=1000, max_trials=100_000))
    enqueue = messages_of("StudyService").EnqueueTrialsRequest(parent=name_of("wide"), request_id="once")
    for _ in range(1000):
        enqueue.trials.add().parameters.SetInParent()
    before = caller.call("WorkerService/GetServerInfo").seq
    begin, memory = time.monotonic(), coordinator.resident_bytes()
    error = caller.error("StudyService/EnqueueTrials", enqueue, timeout=30)
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "the first " in error.details(), error
    assert time.monotonic() - begin < 5 and coordinator.resident_bytes() < memory + 300 * MIB
    assert caller.call("WorkerService/GetServerInfo").seq == before
    assert caller.trials("wide") == []


def test_lists_of_large_studies(coordinator: Coordinator) -> None:
    """Four lists of studies whose specs are as large as they may be, at once."""
    caller = coordinator.caller(coordinator.admin_token)
    large = spec(parameters=900)
    large.description = "d" * 4000
    for i in range(20):
        caller.call("StudyService/CreateStudy", study_id=f"large{i}", spec=large, timeout=30)
    memory, found, lock = coordinator.resident_bytes(), [], threading.Lock()

    def list_all() -> None:
        mine = coordinator.caller(coordinator.admin_token)
        names, token = [], ""
        while True:
            page = mine.call("StudyService/ListStudies", page_size=1000, page_token=token, timeout=30)
            assert page.ByteSize() <= 4 * MIB
            names += [study.name for study in page.studies]
            token = page.next_page_token
            if not token:
                break
        with lock:
            found.append(names)

    threads = [threading.Thread(target=list_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(set(names)) for names in found] == [20] * 4, found
    assert coordinator.resident_bytes() < memory + 200 * MIB


def test_a_chosen_algorithm_is_not_shown_with_settings_that_nobody_chose(coordinator: Coordinator, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("space: [{name: x, float: {min: 0, max: 1}}]\nmetric: {name: loss, goal: minimize}\nbudget: {max_trials: 3}\n")
    where = ["--server", coordinator.own_socket]
    created = run("luthier", "study", "create", "-f", file, "--name", "s", *where).stdout
    shown = run("luthier", "study", "get", "s", *where).stdout
    for text in (created, shown):
        chosen = re.split(r"\n\s*spec\s*\n", text)[0]
        assert "seed" not in chosen and "reproducible" not in chosen, text
    assert "chosen by the service" in shown, shown
    # A repetition gets the same answer, whatever became of the study.
    caller = coordinator.caller(coordinator.admin_token)
    lease = caller.suggest("s", request_id="r")[0]
    assert caller.suggest("s", request_id="r")[0].token == lease.token
    caller.complete(lease, 0.5)
    again = caller.call("WorkerService/Complete", trial=lease.trial.name, token=lease.token, measurement={"metrics": {"loss": 0.5}})
    assert again == caller.complete(lease, 0.5)
    assert caller.call("StudyService/PauseStudy", name=name_of("s")).trials == caller.call(
        "StudyService/PauseStudy", name=name_of("s")).trials


@pytest.mark.parametrize("pattern", [r"(a)\1", r"(?=a)(b)", "no group", "(", "(a{1000}){1000}"])
def test_patterns_that_could_hold_a_worker_are_refused(coordinator: Coordinator, pattern: str) -> None:
    caller = coordinator.caller(coordinator.admin_token)
    wanted = spec()
    wanted.objective.command.argv.append("true")
    wanted.objective.command.stdout_patterns["loss"] = pattern
    error = caller.error("StudyService/CreateStudy", study_id="s", spec=wanted)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "stdout_patterns" in error.details(), error
    assert caller.error("StudyService/GetStudy", name=name_of("s")).code() == grpc.StatusCode.NOT_FOUND


def heavy_study(caller: Any) -> None:
    """Fifty parameters, a hundred results: a model that takes seconds."""
    caller.call("StudyService/CreateStudy", study_id="heavy", spec=spec(parameters=50, max_trials=1000, algorithm="bo"))
    from luthier.v1 import trial_pb2

    imported = messages_of("StudyService").ImportTrialsRequest(parent=name_of("heavy"), request_id="i")
    for i in range(100):
        trial = imported.trials.add(state=trial_pb2.Trial.COMPLETE)
        trial.parameters.update({f"x{k}": (i * (k + 7) % 101) / 101 for k in range(50)})
        trial.final_measurement.metrics["loss"] = float(i * i % 37)
    caller.call("StudyService/ImportTrials", imported, timeout=30)


def test_a_heavy_study_starves_nobody_and_does_not_hold_up_the_end(coordinator: Coordinator) -> None:
    caller = coordinator.caller(coordinator.admin_token)
    heavy_study(caller)
    caller.call("StudyService/CreateStudy", study_id="small", spec=spec(algorithm="tpe"))
    caller.create_study("full", max_trials=1)
    caller.suggest("full")
    fits = [caller.future("WorkerService/Suggest", study=name_of("heavy"), worker=f"h{i}", request_id=f"h{i}") for i in range(4)]
    polls = [caller.future("WorkerService/Suggest", study=name_of("full"), worker=f"p{i}", request_id=f"p{i}") for i in range(4)]
    watch = caller.stream("StudyService/WatchStudy", name=name_of("full"))
    next(iter(watch))
    slowest = 0.0
    for _ in range(20):
        begin = time.monotonic()
        caller.complete(caller.suggest("small")[0], 0.5)
        slowest = max(slowest, time.monotonic() - begin)
    assert slowest < 3, f"an ask of a small study took {slowest:.1f} s"
    begin = time.monotonic()
    assert coordinator.stop(30) == 0, coordinator.log()
    assert time.monotonic() - begin < 8
    assert fits and polls
