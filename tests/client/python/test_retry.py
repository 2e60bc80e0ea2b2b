"""What a failed call means and how long a client waits: the same table as the C++ client's."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import luthier
from luthier import _retry, _wire, errors
from luthier._retry import FINISH, ONCE, ORDINARY, Advice, Budget, Retry, advice_for

# lib/base/retry_advice.h.
TABLE = [
    ("UNAVAILABLE", "", 0, Advice.REPEAT),
    ("UNAVAILABLE", "DRAINING", 1, Advice.REPEAT),
    ("DEADLINE_EXCEEDED", "", 0, Advice.REPEAT),
    ("CANCELLED", "", 0, Advice.REPEAT),
    ("ABORTED", "", 0, Advice.FEW_TIMES),
    ("INTERNAL", "", 0, Advice.FEW_TIMES),
    ("UNKNOWN", "", 0, Advice.FEW_TIMES),
    ("INTERNAL", "BUG", 0, Advice.FAULT),
    ("RESOURCE_EXHAUSTED", "QUEUE_FULL", 0, Advice.LATER),
    ("RESOURCE_EXHAUSTED", "RATE_LIMITED", 0, Advice.LATER),
    ("RESOURCE_EXHAUSTED", "MEMORY", 0.5, Advice.LATER),
    ("RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED", 0, Advice.ASK_FOR_LESS),
    ("RESOURCE_EXHAUSTED", "MESSAGE_TOO_LARGE", 0, Advice.ASK_FOR_LESS),
    ("RESOURCE_EXHAUSTED", "", 0, Advice.FAULT),
    ("INVALID_ARGUMENT", "BAD_FIELD", 0, Advice.MEND),
    ("OUT_OF_RANGE", "", 0, Advice.MEND),
    ("ALREADY_EXISTS", "STUDY_EXISTS", 0, Advice.REFUSED),
    ("FAILED_PRECONDITION", "LEASE_LOST", 0, Advice.REFUSED),
    ("NOT_FOUND", "NOT_FOUND", 0, Advice.REFUSED),
    ("PERMISSION_DENIED", "", 0, Advice.FORBIDDEN),
    ("UNAUTHENTICATED", "", 0, Advice.FORBIDDEN),
    ("UNIMPLEMENTED", "", 0, Advice.FORBIDDEN),
    ("DATA_LOSS", "", 0, Advice.FAULT),
]


@pytest.mark.parametrize("code, reason, delay, advice", TABLE)
def test_advice(code: str, reason: str, delay: float, advice: Advice) -> None:
    assert advice_for(code, reason, delay) is advice


class Longest(random.Random):
    """Draws the longest wait each time."""

    def random(self) -> float:
        return 1.0


def waits(policy: _retry.Policy, code: str, reason: str = "", delay: float = 0.0, most: int = 12) -> list[Any]:
    retry, out, elapsed = Retry(policy, rng=Longest()), [], 0.0
    for _ in range(most):
        wait = retry.wait_after(code, reason, delay, elapsed)
        out.append(wait)
        if wait is None:
            break
        elapsed += wait
    return out


def test_waits_double_up_to_ten_seconds() -> None:
    assert waits(FINISH, "DEADLINE_EXCEEDED", most=9) == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10])


def test_waits_are_short_while_nobody_answers() -> None:
    assert waits(FINISH, "UNAVAILABLE", most=6) == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_the_server_names_a_delay_of_a_minute_at_most() -> None:
    assert waits(FINISH, "UNAVAILABLE", "DRAINING", 2.0, most=1) == [2.0]
    assert waits(FINISH, "UNAVAILABLE", "DRAINING", 3600.0, most=1) == [60.0]


def test_ordinary_calls_are_made_five_times() -> None:
    assert [w is None for w in waits(ORDINARY, "UNAVAILABLE")] == [False] * 4 + [True]
    assert waits(ONCE, "UNAVAILABLE") == [None]
    assert waits(FINISH, "INVALID_ARGUMENT", "BAD_FIELD") == [None]


def test_odd_errors_are_repeated_a_few_times_even_by_finishers() -> None:
    assert [w is None for w in waits(FINISH, "INTERNAL")] == [False] * 4 + [True]


def test_finishers_give_up_after_a_day() -> None:
    retry = Retry(FINISH, rng=Longest())
    assert retry.wait_after("UNAVAILABLE", "", 0, 86_000) is not None
    assert retry.wait_after("UNAVAILABLE", "", 0, 86_400) is None


def test_jitter_is_full(seed: int) -> None:
    rng = random.Random(seed)
    drawn = [Retry(FINISH, rng=rng).wait_after("UNAVAILABLE", "", 0, 0) for _ in range(500)]
    assert all(w is not None and 0 <= w <= 0.1 for w in drawn)
    assert min(w for w in drawn if w is not None) < 0.01 and max(w for w in drawn if w is not None) > 0.09


def test_budget_bounds_retries() -> None:
    budget = Budget()
    made = 0
    while Retry(ORDINARY, budget).wait_after("UNAVAILABLE", "", 0, 0) is not None:
        made += 1
    assert made == 10
    for _ in range(10):
        budget.earn()
    assert budget.spend() and not budget.spend()


# errors.proto.
REASONS = {
    "BAD_FIELD": errors.BadField,
    "REQUEST_ID_REUSED": errors.RequestIdReused,
    "NOT_FOUND": errors.NotFound,
    "STUDY_EXISTS": errors.StudyExists,
    "LEASE_LOST": errors.LeaseLost,
    "TRIAL_FINAL": errors.TrialFinal,
    "CONFLICTING_REPORT": errors.ConflictingReport,
    "STUDY_PAUSED": errors.StudyPaused,
    "STUDY_FINISHED": errors.StudyFinished,
    "TRIALS_RUNNING": errors.TrialsRunning,
    "TRIAL_OPEN": errors.TrialOpen,
    "REPRODUCIBLE": errors.Reproducible,
    "NOT_OPEN": errors.NotOpen,
    "PARAMETER_DIFFERS": errors.ParameterDiffers,
    "TOO_FEW_RESULTS": errors.TooFewResults,
    "NOT_GRANTED": errors.NotGranted,
    "NO_MODEL": errors.NoModel,
    "QUEUE_FULL": errors.QueueFull,
    "MEMORY": errors.ServerMemory,
    "LIMIT_EXCEEDED": errors.LimitExceeded,
    "MESSAGE_TOO_LARGE": errors.MessageTooLarge,
    "DRAINING": errors.Draining,
    "STORAGE_FULL": errors.StorageFull,
    "STORAGE_LOW": errors.StorageLow,
    "STARTING": errors.Starting,
    "REPLY_LOST": errors.ReplyLost,
    "UNIMPLEMENTED": errors.Unimplemented,
    "BUG": errors.ServerBug,
    "NO_TOKEN": errors.NoToken,
    "BAD_TOKEN": errors.BadToken,
    "EXPIRED": errors.TokenExpired,
    "REVOKED": errors.TokenRevoked,
    "ROLE": errors.RoleMissing,
    "TOKEN_EXISTS": errors.LuthierError,  # Of calls that this package does not make.
    "PROJECT_EXISTS": errors.LuthierError,
    "NO_STORE": errors.LuthierError,
    "NEVER_HEARD_OF": errors.LuthierError,
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_class_for_every_reason(reason: str) -> None:
    detail = _wire.message("ErrorDetail")(reason=reason)
    detail.violations.add(field="a", description="b")
    detail.retry_delay.nanos = 500_000_000
    error = errors.from_detail("UNKNOWN", "what the server says", detail)
    assert type(error) is REASONS[reason]
    assert (error.reason, str(error), error.retry_delay) == (reason, "what the server says", 0.5)
    assert error.violations == (errors.Violation("a", "b"),)


def test_the_table_of_the_protocol_is_covered() -> None:
    import re
    from pathlib import Path

    text = (Path(__file__).resolve().parents[3] / "proto/luthier/v1/errors.proto").read_text()
    rows = re.findall(r"^// \| [A-Z_]+ \| ([^|]*) \|", text, re.MULTILINE)
    named = {word for row in rows for word in re.findall(r"[A-Z]{2,}(?:_[A-Z]+)*", row)}
    assert named <= set(REASONS), named - set(REASONS)


def test_without_a_reason_the_code_decides() -> None:
    assert type(errors.from_detail("UNAVAILABLE", "x", None)) is errors.Unavailable
    assert type(errors.from_detail("UNIMPLEMENTED", "x", None)) is errors.Unimplemented
    assert type(errors.from_detail("PERMISSION_DENIED", "x", None)) is errors.Forbidden
    assert type(errors.from_detail("DATA_LOSS", "x", None)) is errors.LuthierError


def test_nobody_there_is_an_error_soon(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    import time

    begin = time.monotonic()
    with pytest.raises(luthier.Unavailable):
        luthier.load("x", server=f"unix:{tmp_path}/nobody")
    assert time.monotonic() - begin < 5
    monkeypatch.setenv("LUTHIER_BIN_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(luthier.Unavailable, match="luthierd is not installed.*LUTHIER_BIN_DIR"):
        luthier.load("x", db=str(tmp_path / "new"))
    with pytest.raises(ValueError, match="not both"):
        luthier.load("x", server="a:1", db="b")
    with pytest.raises(ValueError, match="db is ''"):
        luthier.load("x", db="")


def test_a_call_that_an_older_server_lacks_names_both_versions() -> None:
    grpc = pytest.importorskip("grpc")

    def info(request: bytes, context: object) -> bytes:
        reply: bytes = _wire.message("ServerInfo")(version="0.0.7").SerializeToString()
        return reply

    server = grpc.server(ThreadPoolExecutor(2))
    handlers = {"GetServerInfo": grpc.unary_unary_rpc_method_handler(info)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("luthier.v1.WorkerService", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with pytest.raises(luthier.Unimplemented) as caught:
            luthier.load("default/s", server=f"127.0.0.1:{port}")
    finally:
        server.stop(None)
    text = str(caught.value)
    assert "StudyService.GetStudy" in text and "0.0.7" in text and luthier.__version__ in text, text
