"""The audit stays: no caller washes it away, makes it unreadable, or writes into the terminal of who reads it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attack
import grpc

REFUSALS = int(os.environ.get("LUTHIER_ATTACK_REFUSALS", "3000"))


def audit(coordinator: attack.Coordinator, kind: int = 0) -> list[Any]:
    """Entries, newest first: all, changes (1) or refusals (2)."""
    owner = coordinator.caller(address=coordinator.own_socket)
    entries: list[Any] = []
    while True:
        before = entries[-1].number if entries else 0
        page = owner.call("AdminService/ListAudit", page_size=1000, before=before, kind=kind).entries
        entries += page
        if not page:
            owner.close()
            return entries


def somebody(coordinator: attack.Coordinator, name: str, role: str) -> attack.Caller:
    """A caller with a token of its own."""
    from luthier.v1 import admin_service_pb2 as pb

    owner = coordinator.caller(address=coordinator.own_socket)
    return coordinator.caller(owner.call("AdminService/CreateToken", name=name, roles=[pb.Role.Value(role)]).secret)


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
    thief = somebody(coordinator, "thief", "VIEWER")
    assert errors(thief, REFUSALS, "StudyService/DeleteStudy", name=attack.name_of("precious"), request_id="r") == {
        grpc.StatusCode.PERMISSION_DENIED}
    for i in range(100):  # Other studies each time, and other projects.
        thief.error("StudyService/GetStudy", name=f"projects/p{i}/studies/s{i}")
    refusals = [entry for entry in audit(coordinator, 2) if entry.name == "thief"]
    assert sum(entry.times for entry in refusals) == REFUSALS + 100
    assert len(refusals) <= 2 * 3  # Two kinds, in three minutes at most.
    assert all(entry.time.ToNanoseconds() <= entry.last_time.ToNanoseconds() for entry in refusals)
    changes = audit(coordinator, 1)
    assert ("StudyService/CreateStudy", "projects/default/studies/precious", "OK") in [(e.method, e.object, e.outcome) for e in changes]


def test_who_is_refused_in_every_way_adds_few_entries_too(coordinator: attack.Coordinator) -> None:
    from luthier.v1 import study_service_pb2 as pb

    thief = somebody(coordinator, "thief", "VIEWER")
    methods = [m for m in pb.DESCRIPTOR.services_by_name["StudyService"].methods if m.name != "WatchStudy"]
    for _ in range(5):
        for method in methods:
            quiet(thief, f"StudyService/{method.name}")
    refusals = [entry for entry in audit(coordinator, 2) if entry.name == "thief"]
    assert 0 < len(refusals) <= 2 * 9, refusals  # Nine a minute.
    assert any(entry.outcome == "OTHERS" for entry in refusals)


def quiet(caller: attack.Caller, method: str) -> None:
    """A call whose answer is of no interest."""
    try:
        caller.call(method)
    except grpc.RpcError:
        pass


def test_no_name_steers_the_terminal_or_hides_the_audit(coordinator: attack.Coordinator) -> None:
    thief = somebody(coordinator, "thief", "USER")
    hostile = ["\u202etxt.exe", "\u200binvisible", "\x1b[2J\x07", "\u009b31m", "\u2066x\u2069", "\U000e0041", "a\nb", "\x7f"]
    # A name of three bytes a character, whose 256th byte is within one.
    hostile += ["\u20ac" * 200, "x" + "\u20ac" * 200, "xy" + "\u20ac" * 200]
    for text in hostile:
        for method, field in [("StudyService/DeleteStudy", "name"), ("StudyService/CreateStudy", "study_id"),
                              ("StudyService/CancelTrial", "name")]:
            error = thief.error(method, **{field: text})
            shown = error.details()
            assert not any(c in shown for c in "\u202e\u200b\x1b\u009b\u2066\U000e0041\x7f"), repr(shown)
    # The audit keeps what was sent, and can be read.
    assert any("\u202etxt.exe" in entry.object for entry in audit(coordinator))
    # The log shows none of it.
    log = coordinator.log()
    assert not any(c in log for c in "\u202e\u200b\x1b\u009b\u2066\U000e0041\x7f")
    coordinator.assert_alive()


def test_text_cut_within_a_character_leaves_the_audit_readable(coordinator: attack.Coordinator) -> None:
    # Each of the offsets is the first of its kind for a caller of its own.
    for offset in range(3):
        caller = somebody(coordinator, f"thief{offset}", "VIEWER")
        caller.error("StudyService/DeleteStudy", name="x" * offset + "\u20ac" * 200)
    entries = audit(coordinator, 2)
    assert sorted(len(entry.object.encode()) for entry in entries) == [254, 255, 256]
