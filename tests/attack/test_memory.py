"""Requests that are small on the wire and large in memory, and many of them at once."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import grpc
import h2.settings
import pytest

import attack

MIB = 1 << 20
# tools/release_check.sh asks for more callers at once, who go on for longer.
LONG = bool(os.environ.get("LUTHIER_ATTACK_LONG"))
CALLERS = 12 if LONG else 6
TURNS = 4 if LONG else 1
# A sanitizer takes memory and addresses of its own.
pytestmark = pytest.mark.skipif(bool(os.environ.get("LUTHIER_ATTACK_SANITIZED")), reason="programs with sanitizers")


class Highest:
    """The most resident memory of a coordinator from now on."""

    def __init__(self, server: attack.Coordinator) -> None:
        self.proc = Path(f"/proc/{server.process.pid}")
        (self.proc / "clear_refs").write_text("5")

    def mebibytes(self) -> float:
        """So far."""
        for line in (self.proc / "status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
        raise AssertionError("no VmHWM")


def labels(parameters: int, each: int) -> Any:
    """A spec with many labels of three characters."""
    made = attack.spec()
    for p in range(parameters):
        made.space.add(name=f"p{p}").categorical.values.extend(str(i) for i in range(each))
    return made


def field(number: int, body: bytes) -> bytes:
    """A message's field that holds bytes."""
    return varint(number << 3 | 2) + varint(len(body)) + body


def varint(value: int) -> bytes:
    """As on the wire."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def code(call: Any, *arguments: Any, **options: Any) -> str:
    """What a call ends with."""
    try:
        call(*arguments, **options)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


# Bodies of less than 4 MiB, by what takes the memory. None is a request that a program would send.
NAME = attack.name_of("s").encode()
MANY = 1_900_000
BODIES = {
    "StudyService/ImportTrials": field(1, NAME) + b"\x12\0" * MANY,
    "StudyService/EnqueueTrials": field(1, NAME) + b"\x12\0" * MANY,
    "StudyService/Predict": field(1, NAME) + b"\x12\0" * MANY,
    "StudyService/CreateStudy": field(1, b"x") + field(2, b"\x1a\0" * MANY),
    "WorkerService/Report": b"\x1a\0" * MANY,
    "WorkerService/Heartbeat": b"\x12\0" * MANY,
    "StudyService/GetStudy": b"\xa0\x06\x01" * (MANY * 2 // 3),  # Fields that it does not know.
    "StudyService/GetTrial": b"\xa3\x06\xa4\x06" * (MANY // 2),  # Groups.
    "StudyService/ListTrials": (b"\xa3\x06" * 1000 + b"\xa4\x06" * 1000) * 900,  # Deep ones.
}


def test_requests_of_empty_parts_are_refused_before_they_are_parsed(coordinator: attack.Coordinator) -> None:
    """Two bytes of a request may be a message of hundreds."""
    stranger, admin = coordinator.caller(), coordinator.caller(coordinator.admin_token)
    admin.create_study("s")
    base = coordinator.resident_bytes() / MIB
    highest = Highest(coordinator)
    for method, body in BODIES.items():
        assert len(body) < 4 * MIB
        for caller in (stranger, admin):
            got = code(caller.raw, f"/luthier.v1.{method}", body)
            assert got not in ("OK", "UNAVAILABLE"), method
            # Who asks is looked at first, as ever.
            if body.endswith(b"\x12\0" * 2) or body.endswith(b"\x1a\0" * 2):
                assert got == ("UNAUTHENTICATED" if caller is stranger else "INVALID_ARGUMENT"), (method, got)
    coordinator.assert_alive()
    # What was refused takes nothing; of unknown fields some fit. The bytes themselves are the library's.
    assert highest.mebibytes() < base + 150
    assert code(admin.suggest, "s") == "OK"


def test_a_spec_is_refused_by_what_it_takes_in_memory(coordinator: attack.Coordinator) -> None:
    """2 MiB of labels took 44 to 130 MiB; now they are refused, and what is taken is bounded."""
    admin = coordinator.caller(coordinator.admin_token)
    admin.create_study("warm")
    base = coordinator.resident_bytes() / MIB
    highest = Highest(coordinator)
    large = labels(400, 1000)
    assert large.ByteSize() < 2 * MIB
    error = admin.error("StudyService/CreateStudy", study_id="large", spec=large)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "of memory, more than the 32 MiB that a study may: space, with 402 parameters" in error.details()
    assert highest.mebibytes() < base + 60
    admin.call("StudyService/CreateStudy", study_id="fits", spec=labels(100, 1000))
    assert code(admin.suggest, "fits") == "OK"


@pytest.mark.parametrize("token", [True, False], ids=["admin", "stranger"])
def test_memory_stays_at_its_limit_whoever_asks_for_more(tmp_path: Path, token: bool) -> None:
    """Callers at once that import, create and read as much as they can; a worker's results are taken beside them."""
    limit = 128
    with attack.Coordinator(tmp_path, "--memory-limit", f"{limit}M") as server:
        admin = server.caller(server.admin_token)
        admin.create_study("s", parameters=8, max_trials=500_000)
        leases = admin.suggest("s", 20)
        body = imports()
        highest = Highest(server)
        end = time.monotonic() + 1.5 * TURNS
        codes: dict[str, int] = {}

        def attacker(i: int) -> None:
            caller = server.caller(server.admin_token if token else None)
            turn = i
            while time.monotonic() < end:
                turn += 1
                if turn % 3 == 0:
                    got = code(caller.raw, "/luthier.v1.StudyService/ImportTrials", body)
                elif turn % 3 == 1:
                    got = code(caller.call, "StudyService/CreateStudy", study_id=f"s{i}-{turn}", spec=labels(60, 1000))
                else:
                    got = code(caller.call, "StudyService/ListTrials", parent=attack.name_of("s"), page_size=1000)
                codes[got] = codes.get(got, 0) + 1
            caller.close()

        threads = [threading.Thread(target=attacker, args=(i,)) for i in range(CALLERS)]
        for thread in threads:
            thread.start()
        done = 0
        while time.monotonic() < end or done < len(leases):
            if done < len(leases) and code(admin.complete, leases[done], 0.5) == "OK":
                done += 1
            assert time.monotonic() < end + attack.PATIENCE, f"results were not taken; {done}, {codes}"
            time.sleep(0.05)
        for thread in threads:
            thread.join()
        server.assert_alive()
        assert highest.mebibytes() < 1.2 * limit, codes
        assert not {"UNAVAILABLE", "UNKNOWN", "INTERNAL"} & set(codes), codes


def imports() -> bytes:
    """An import of 1,000 trials with curves: 3 MiB that take 40 in memory."""
    from luthier.v1 import trial_pb2

    trial = trial_pb2.Trial(state=trial_pb2.Trial.COMPLETE)
    for i in range(8):
        trial.parameters[f"x{i}"] = 0.5
    trial.final_measurement.metrics["loss"] = 0.5
    for step in range(100):
        trial.measurements.add(step=step + 1).metrics["loss"] = 0.5
    body = field(1, NAME) + 1000 * field(2, trial.SerializeToString())
    assert len(body) < 4 * MIB
    return body


def test_replies_that_nobody_reads_do_not_fill_memory(tmp_path: Path) -> None:
    """Pages of 3 MiB, asked for by the dozen over connections whose windows stay closed."""
    from luthier.v1 import study_service_pb2, trial_pb2

    limit = 128
    with attack.Coordinator(tmp_path, "--memory-limit", f"{limit}M") as server:
        admin = server.caller(server.admin_token)
        admin.create_study("s", parameters=8, max_trials=500_000)
        trial = trial_pb2.Trial(state=trial_pb2.Trial.COMPLETE)
        for i in range(8):
            trial.parameters[f"x{i}"] = 0.5
        trial.final_measurement.metrics["loss"] = 0.5
        for i in range(30):
            trial.attributes[f"key{i}"] = "v" * 900
        for _ in range(2):
            admin.raw("/luthier.v1.StudyService/ImportTrials", field(1, NAME) + 100 * field(2, trial.SerializeToString()))
        asked = study_service_pb2.ListTrialsRequest(parent=attack.name_of("s"), page_size=1000).SerializeToString()
        headers = [("content-type", "application/grpc"), ("te", "trailers"),
                   ("authorization", f"Bearer {server.admin_token}")]
        highest = Highest(server)
        closed = []
        for _ in range(3):
            closed.append(attack.Http2(server))
            closed[-1].h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
            for _ in range(60):
                closed[-1].request("/luthier.v1.StudyService/ListTrials", headers, b"\0" + len(asked).to_bytes(4, "big") + asked)
        time.sleep(1.5)
        assert highest.mebibytes() < 1.1 * limit
        assert code(admin.suggest, "s") == "OK"
        for connection in closed:
            connection.close()
        server.assert_alive()


def test_a_small_address_space_ends_nothing(tmp_path: Path) -> None:
    """1.2 GB of addresses, where memory ended in an exception that nobody caught."""
    with attack.Coordinator(tmp_path, prefix=("prlimit", f"--as={1_200_000_000}")) as server:
        assert "half of the address space's limit" in server.log()
        admin = server.caller(server.admin_token)
        admin.create_study("s", parameters=8, max_trials=500_000)
        body, spec = imports(), labels(100, 1000)

        def attacker(i: int) -> None:
            caller = server.caller(server.admin_token)
            for turn in range(TURNS):
                if i % 3 == 0:  # They take a second of the disk.
                    code(caller.raw, "/luthier.v1.StudyService/ImportTrials", body, timeout=20)
                code(caller.call, "StudyService/CreateStudy", study_id=f"s{i}-{turn}", spec=spec, timeout=20)
            caller.close()

        threads = [threading.Thread(target=attacker, args=(i,)) for i in range(CALLERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        server.assert_alive()
        assert code(admin.suggest, "s") in ("OK", "RESOURCE_EXHAUSTED")


def test_a_limit_is_there_without_asking(tmp_path: Path) -> None:
    """And can be switched off."""
    with attack.Coordinator(tmp_path) as server:
        line = next(line for line in server.log().splitlines() if "memory_limit" in line)
        assert "none" not in line and "mebibytes" in line
    (tmp_path / "none").mkdir()
    with attack.Coordinator(tmp_path / "none", "--memory-limit", "none") as server:
        line = next(line for line in server.log().splitlines() if "memory_limit" in line)
        assert "none" in line
