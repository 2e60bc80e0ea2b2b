"""Whoever lost a token keeps nothing that it opened: no watch, no waiting ask, no write on its way."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import attack
import grpc
import h2.events
import pytest

SOON = 1.0  # Seconds within which what waits has to end.
ROUNDS = int(os.environ.get("LUTHIER_ATTACK_ROUNDS", "4"))


def ended(call: Any, seconds: float = SOON) -> tuple[grpc.StatusCode, str]:
    """The code and text with which a call or a stream ends; fails where it takes longer than `seconds`."""
    begin = time.monotonic()
    attack.wait_for(call.done, "the end of a call", seconds + 5)
    took = time.monotonic() - begin
    assert took <= seconds, f"it ended after {took:.2f} s"
    return call.code(), call.details()


def make_token(admin: attack.Caller, name: str, role: str) -> Any:
    """A token and its secret."""
    from luthier.v1 import admin_service_pb2 as pb

    return admin.call("AdminService/CreateToken", name=name, roles=[pb.Role.Value(role)])


def revoke(admin: attack.Caller, token: Any) -> None:
    """By its id."""
    admin.call("AdminService/RevokeToken", id=token.token.id)


def rotate(admin: attack.Caller, token: Any, overlap: str | None = None) -> None:
    """A new secret; the old one ends at once, or after `overlap`, as in "0.3s"."""
    from google.protobuf import duration_pb2

    fields: dict[str, Any] = {"id": token.token.id}
    if overlap is not None:
        fields["overlap"] = duration_pb2.Duration(nanos=int(float(overlap.rstrip("s")) * 1e9))
    admin.call("AdminService/RotateToken", **fields)


ENDS: dict[str, tuple[Callable[[attack.Caller, Any], None], str, float]] = {
    "revoked": (revoke, "was revoked", SOON),
    "replaced": (rotate, "was replaced", SOON),
    "replaced a little later": (lambda admin, token: rotate(admin, token, "0.3s"), "was replaced", SOON + 0.3),
}


@pytest.mark.parametrize("how", list(ENDS))
def test_watches_and_waiting_asks_end_with_their_token(coordinator: attack.Coordinator, how: str) -> None:
    end, text, seconds = ENDS[how]
    admin = coordinator.caller(coordinator.admin_token)
    admin.create_study("s", max_trials=1)
    loser, keeper = make_token(admin, "loser", "USER"), make_token(admin, "keeper", "USER")
    thief, other = coordinator.caller(loser.secret), coordinator.caller(keeper.secret)
    assert len(other.suggest("s")) == 1  # Nothing is left: asks wait.

    def open_all(caller: attack.Caller) -> tuple[list[Any], list[Any]]:
        watches = [caller.stream("StudyService/WatchStudy", name=attack.name_of("s")) for _ in range(20)]
        for watch in watches:
            next(watch)  # It is under way.
        asks = [caller.future("WorkerService/Suggest", study=attack.name_of("s"), worker=f"w{i}", request_id=f"r{i}")
                for i in range(20)]
        return watches, asks

    lost, kept = open_all(thief), open_all(other)
    readers = [threading.Thread(target=lambda w=w: [None for _ in drain(w)]) for w in lost[0]]
    for reader in readers:
        reader.start()
    time.sleep(0.2)
    end(admin, loser)
    begin = time.monotonic()
    for call in lost[0] + lost[1]:
        code, details = ended(call, max(0.0, seconds - (time.monotonic() - begin)) + 0.01)
        assert code == grpc.StatusCode.UNAUTHENTICATED, details
        assert text in details
    assert not any(call.done() for call in kept[0] + kept[1])
    for call in kept[0] + kept[1]:
        call.cancel()
    for reader in readers:
        reader.join()
    coordinator.assert_alive()


def drain(watch: Any) -> list[Any]:
    """All that comes until the stream ends, however it ends."""
    events = []
    try:
        for event in watch:
            events.append(event)
    except grpc.RpcError:
        pass
    return events


def test_a_waiting_ask_of_a_revoked_worker_gets_no_trial(coordinator: attack.Coordinator) -> None:
    admin = coordinator.caller(coordinator.admin_token)
    admin.create_study("s", max_trials=1)
    token = make_token(admin, "gone", "WORKER")
    [held] = admin.suggest("s")
    ask = coordinator.caller(token.secret).future("WorkerService/Suggest", study=attack.name_of("s"), worker="w",
                                                  request_id="r")
    time.sleep(0.2)
    revoke(admin, token)
    # The trial is given back at once: it is the ask's turn, were it still there.
    admin.call("WorkerService/Release", trial=held.trial.name, token=held.token)
    assert ended(ask)[0] == grpc.StatusCode.UNAUTHENTICATED
    [trial] = admin.trials("s")
    assert len(trial.attempts) == 1
    assert len(admin.suggest("s", worker="v")) == 1


def test_nothing_is_stored_after_a_revocation_was_answered(coordinator: attack.Coordinator) -> None:
    admin = coordinator.caller(coordinator.admin_token)
    admin.create_study("s", max_trials=100_000)
    admin.suggest("s")
    trial = attack.name_of("s") + "/trials/1"
    refused = 0
    for i in range(ROUNDS):
        token = make_token(admin, f"t{i}", "USER")
        callers = [coordinator.caller(token.secret) for _ in range(2)]
        stop = threading.Event()
        codes: list[grpc.StatusCode] = []

        def write(caller: attack.Caller, number: int) -> None:
            n = 0
            while not stop.is_set():
                n += 1
                futures = [caller.future("StudyService/SetAttributes", attributes(trial, f"{i}-{number}-{n}-{k}"))
                           for k in range(8)]
                futures.append(caller.future("WorkerService/Suggest", study=attack.name_of("s"),
                                             worker=f"w{number}", request_id=f"{number}-{n}"))
                codes.extend(future.code() for future in futures)

        writers = [threading.Thread(target=write, args=(caller, k)) for k, caller in enumerate(callers)]
        for writer in writers:
            writer.start()
        time.sleep(0.15 + 0.02 * i)
        revoke(admin, token)
        after = admin.call("WorkerService/GetServerInfo").seq
        time.sleep(0.1)
        stop.set()
        for writer in writers:
            writer.join()
        assert admin.call("WorkerService/GetServerInfo").seq == after
        assert grpc.StatusCode.OK in codes
        refused += codes.count(grpc.StatusCode.UNAUTHENTICATED)
    assert refused > 0
    coordinator.assert_alive()


def attributes(trial: str, value: str) -> Any:
    """A request that changes a trial."""
    from luthier.v1 import study_service_pb2 as pb

    return pb.SetAttributesRequest(name=trial, attributes={"note": value})


def test_a_revoked_watcher_that_does_not_read_is_cut_off(coordinator: attack.Coordinator) -> None:
    from luthier.v1 import study_service_pb2 as pb

    admin = coordinator.caller(coordinator.admin_token)
    admin.create_study("s", max_trials=5000)
    enqueue = pb.EnqueueTrialsRequest(parent=attack.name_of("s"), request_id="many")
    for _ in range(1000):
        setting = enqueue.trials.add().parameters
        setting["x0"], setting["x1"] = 0.5, 0.5
    admin.call("StudyService/EnqueueTrials", request=enqueue)
    token = make_token(admin, "stalled", "VIEWER")
    body = pb.WatchStudyRequest(name=attack.name_of("s")).SerializeToString()
    with attack.Http2(coordinator) as http:
        stream = http.request("/luthier.v1.StudyService/WatchStudy", headers=[
            ("content-type", "application/grpc"), ("te", "trailers"), ("authorization", f"Bearer {token.secret}")],
            body=b"\0" + len(body).to_bytes(4, "big") + body)
        seen = 0  # It never opens its window again: the coordinator can write no more.
        while True:
            events = http.events(1.0)
            if not events:
                break
            seen += sum(len(e.data) for e in events if isinstance(e, h2.events.DataReceived))
        assert seen > 32_000
        revoke(admin, token)
        found: list[Any] = []
        attack.wait_for(lambda: found.extend(http.events(0.2)) or any(
            isinstance(e, (h2.events.StreamReset, h2.events.StreamEnded)) and e.stream_id == stream for e in found),
            "the end of the stream", 5)
    coordinator.assert_alive()


def test_a_page_after_the_end_is_refused(coordinator: attack.Coordinator) -> None:
    admin = coordinator.caller(coordinator.admin_token)
    for i in range(4):
        admin.create_study(f"s{i}")
    token = make_token(admin, "reader", "VIEWER")
    reader = coordinator.caller(token.secret)
    page = reader.call("StudyService/ListStudies", page_size=2)
    assert page.next_page_token
    revoke(admin, token)
    error = reader.error("StudyService/ListStudies", page_size=2, page_token=page.next_page_token)
    assert error.code() == grpc.StatusCode.UNAUTHENTICATED
