"""The audit stays: no caller washes it away, makes it unreadable, or writes into the terminal of who reads it."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attack
import grpc

REFUSALS = int(os.environ.get("LUTHIER_ATTACK_REFUSALS", "3000"))


def audit(coordinator: attack.Coordinator, *flags: str) -> list[dict[str, Any]]:
    """Entries, newest first."""
    lines = attack.run("luthier", "admin", "audit", "--count", "100000", *flags, "--server",
                       coordinator.own_socket).stdout.splitlines()
    return [json.loads(line) for line in lines]


def errors(caller: attack.Caller, count: int, method: str, **fields: Any) -> set[grpc.StatusCode]:
    """The codes of so many calls, many at once."""
    def some(share: int) -> set[grpc.StatusCode]:
        found = set()
        for begin in range(0, share, 50):
            calls = [caller.future(method, **fields) for _ in range(min(50, share - begin))]
            found |= {call.code() for call in calls}
        return found

    with ThreadPoolExecutor(4) as threads:
        shares = [count // 4 + (i < count % 4) for i in range(4)]
        return set().union(*threads.map(some, shares))


def test_refusals_of_one_caller_are_few_entries(coordinator: attack.Coordinator) -> None:
    admin = coordinator.caller(coordinator.admin_token)
    admin.create_study("precious")
    thief = coordinator.caller(coordinator.make_token("thief", "viewer"))
    assert errors(thief, REFUSALS, "StudyService/DeleteStudy", name=attack.name_of("precious"), request_id="r") == {
        grpc.StatusCode.PERMISSION_DENIED}
    for i in range(100):  # Other studies each time, and other projects.
        thief.error("StudyService/GetStudy", name=f"projects/p{i}/studies/s{i}")
    refusals = [entry for entry in audit(coordinator, "--only", "refusals") if entry["name"] == "thief"]
    assert sum(entry["times"] for entry in refusals) == REFUSALS + 100
    assert len(refusals) <= 2 * 3  # Two kinds, in three minutes at most.
    assert all(entry["time"] <= entry["last_time"] for entry in refusals)
    changes = audit(coordinator, "--only", "changes")
    assert [(e["method"], e["object"], e["outcome"]) for e in changes][-1] == (
        "StudyService/CreateStudy", "precious", "OK")
    assert len(audit(coordinator)) == len(changes) + len(audit(coordinator, "--only", "refusals"))


def test_who_is_refused_in_every_way_adds_few_entries_too(coordinator: attack.Coordinator) -> None:
    from luthier.v1 import study_service_pb2 as pb

    thief = coordinator.caller(coordinator.make_token("thief", "viewer"))
    methods = [m for m in pb.DESCRIPTOR.services_by_name["StudyService"].methods if m.name != "WatchStudy"]
    for _ in range(5):
        for method in methods:
            quiet(thief, f"StudyService/{method.name}")
    refusals = [entry for entry in audit(coordinator, "--only", "refusals") if entry["name"] == "thief"]
    assert 0 < len(refusals) <= 2 * 9, refusals  # Nine a minute.
    assert any(entry["outcome"] == "OTHERS" for entry in refusals)


def quiet(caller: attack.Caller, method: str) -> None:
    """A call whose answer is of no interest."""
    try:
        caller.call(method)
    except grpc.RpcError:
        pass


def test_no_name_steers_the_terminal_or_hides_the_audit(coordinator: attack.Coordinator) -> None:
    thief = coordinator.caller(coordinator.make_token("thief", "user"))
    hostile = ["\u202etxt.exe", "\u200binvisible", "\x1b[2J\x07", "\u009b31m", "\u2066x\u2069", "\U000e0041", "a\nb", "\x7f"]
    # A name of three bytes a character, whose 256th byte is within one.
    hostile += ["\u20ac" * 200, "x" + "\u20ac" * 200, "xy" + "\u20ac" * 200]
    for text in hostile:
        for method, field in [("StudyService/DeleteStudy", "name"), ("StudyService/CreateStudy", "study_id"),
                              ("StudyService/CancelTrial", "name")]:
            error = thief.error(method, **{field: text})
            shown = error.details()
            assert not any(c in shown for c in "\u202e\u200b\x1b\u009b\u2066\U000e0041\n\x7f"), repr(shown)
    result = attack.run("luthier", "admin", "audit", "--count", "1000", "--server", coordinator.own_socket)
    for line in result.stdout.splitlines():
        json.loads(line)
    raw = result.stdout
    assert not any(c in raw for c in "\u202e\u200b\x1b\u009b\u2066\U000e0041\x7f"), repr(raw)
    # One entry a kind and minute has the object of the first; here each is the first of a kind once.
    assert any("\u202etxt.exe" in json.loads(line)["object"] for line in raw.splitlines())
    # The same for whoever reads the log, and the errors of the command line.
    log = coordinator.log()
    assert not any(c in log for c in "\u202e\u200b\x1b\u009b\u2066\U000e0041\x7f")
    said = attack.run("luthier", "study", "show", "\u202etxt.exe", "--server", coordinator.own_socket, check=False)
    assert said.returncode != 0 and "\u202e" not in said.stdout + said.stderr, said.stderr
    coordinator.assert_alive()


def test_text_cut_within_a_character_leaves_the_audit_readable(coordinator: attack.Coordinator) -> None:
    # Each of the offsets is the first of its kind for a caller of its own.
    for offset in range(3):
        caller = coordinator.caller(coordinator.make_token(f"thief{offset}", "viewer"))
        caller.error("StudyService/DeleteStudy", name="x" * offset + "\u20ac" * 200)
    entries = audit(coordinator, "--only", "refusals")
    assert sorted(len(entry["object"].encode()) for entry in entries) == [255, 255, 256]
