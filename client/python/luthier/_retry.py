"""What a failed call means, and how often it is sent again. The rules are those of the C++ client."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from enum import Enum
from typing import Any, Optional

from luthier import _wire
from luthier._version import installed
from luthier.errors import LuthierError, Unimplemented, from_detail

INFO = "GetServerInfo"  # The call that tells the version.
_FIRST_CEILING = 0.1
_LONGEST_WAIT = 10.0
_LONGEST_WAIT_UNREACHED = 1.0  # While no server is reached: the end of an outage is noticed soon.
_LONGEST_SERVER_DELAY = 60.0  # No server parks its callers for ever.
_FEW_TIMES = 5


class Advice(Enum):
    """What to do about a failed call."""

    REPEAT = 1  # The outcome is unknown: send the same request again until there is an answer.
    FEW_TIMES = 2  # The outcome is unknown after what may be an accident on the way: send it a few times.
    LATER = 3  # The server did nothing for lack of room: send it again after a while.
    ASK_FOR_LESS = 4  # A limit stands against the request.
    MEND = 5  # The request is wrong.
    REFUSED = 6  # The study or the trial can't take the request.
    FORBIDDEN = 7  # The server does not serve this caller, or does not know the call.
    FAULT = 8  # The server has a bug.


_BY_CODE = {
    "UNAVAILABLE": Advice.REPEAT,
    "DEADLINE_EXCEEDED": Advice.REPEAT,
    "CANCELLED": Advice.REPEAT,
    "INVALID_ARGUMENT": Advice.MEND,
    "OUT_OF_RANGE": Advice.MEND,
    "ALREADY_EXISTS": Advice.REFUSED,
    "FAILED_PRECONDITION": Advice.REFUSED,
    "NOT_FOUND": Advice.REFUSED,
    "PERMISSION_DENIED": Advice.FORBIDDEN,
    "UNAUTHENTICATED": Advice.FORBIDDEN,
    "UNIMPLEMENTED": Advice.FORBIDDEN,
}


def advice_for(code: str, reason: str = "", retry_delay: float = 0.0) -> Advice:
    """Returns what an error means: gRPC's `code`, the service's `reason` ("" for none) and the delay that it names."""
    if code in ("ABORTED", "INTERNAL", "UNKNOWN"):
        return Advice.FAULT if reason else Advice.FEW_TIMES
    if code == "RESOURCE_EXHAUSTED":
        if reason in ("LIMIT_EXCEEDED", "MESSAGE_TOO_LARGE"):
            return Advice.ASK_FOR_LESS
        passes = reason and (retry_delay > 0 or reason in ("QUEUE_FULL", "RATE_LIMITED"))
        return Advice.LATER if passes else Advice.FAULT
    return _BY_CODE.get(code, Advice.FAULT)


@dataclass(frozen=True)
class Policy:
    """How often a call is sent: at most `attempts` times, none later than `patience` seconds after the first."""

    attempts: int
    patience: float
    budgeted: bool = False


ORDINARY = Policy(attempts=5, patience=300.0, budgeted=True)
LOCAL = Policy(
    attempts=1_000_000, patience=30.0
)  # Who started a directory's coordinator may end it: another one is started.
ONCE = Policy(attempts=1, patience=0.0)
ASK = Policy(attempts=1_000_000, patience=300.0)  # A coordinator may take so long to come back.
FINISH = Policy(attempts=1_000_000, patience=24 * 3600.0)  # A result is worth more than a day of patience.


class Budget:
    """Bounds the extra traffic of a client whose server is in trouble: each answer earns a tenth of a retry, at most
    ten are saved up, and they are there at the start. Any thread may use it."""

    _MOST = 100

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tenths = self._MOST

    def spend(self) -> bool:
        """Takes a retry; False where none is left."""
        with self._lock:
            if self._tenths < 10:
                return False
            self._tenths -= 10
            return True

    def earn(self) -> None:
        """Counts an answer."""
        with self._lock:
            self._tenths = min(self._tenths + 1, self._MOST)


class Retry:
    """The repetitions of one call. `wait_after` says how long to wait after a failure, or that it is enough."""

    def __init__(self, policy: Policy, budget: Optional[Budget] = None, rng: Optional[random.Random] = None) -> None:
        self._policy = policy
        self._budget = budget if policy.budgeted else None
        self._rng = rng or random.Random()
        self._made = self._odd = 0

    def wait_after(self, code: str, reason: str, retry_delay: float, elapsed: float) -> Optional[float]:
        """Returns the seconds to wait before the next attempt, or None where the error is the answer. `elapsed`:
        seconds since the first attempt began."""
        advice = advice_for(code, reason, retry_delay)
        if advice not in (Advice.REPEAT, Advice.FEW_TIMES, Advice.LATER):
            if self._budget is not None:
                self._budget.earn()
            return None
        self._made += 1
        if advice is Advice.FEW_TIMES:
            self._odd += 1
            if self._odd >= _FEW_TIMES:
                return None
        if self._made >= self._policy.attempts:
            return None
        longest = _LONGEST_WAIT_UNREACHED if code == "UNAVAILABLE" and not reason else _LONGEST_WAIT
        ceiling: float = min(_FIRST_CEILING * 2 ** min(self._made - 1, 10), longest)
        wait = max(ceiling * self._rng.random(), min(retry_delay, _LONGEST_SERVER_DELAY))
        if elapsed + wait > self._policy.patience:
            return None
        if self._budget is not None and not self._budget.spend():
            return None
        return wait


# --- Failures as gRPC has them ---


def translate(error: Any) -> LuthierError:
    """Returns the LuthierError for an RpcError."""
    code = error.code().name if error.code() is not None else "UNKNOWN"
    detail = None
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            detail = _parse_detail(value)
    return from_detail(code, error.details() or code, detail)


def _parse_detail(data: bytes) -> Optional[Any]:
    from google.protobuf.message import DecodeError

    try:
        return _wire.message("ErrorDetail").FromString(data)
    except DecodeError:
        return None  # A proxy on the way wrote the error.


def lacks(failure: LuthierError, name: str) -> bool:
    """Whether the coordinator does not know a call; of the one that tells its version nothing more can be said."""
    return isinstance(failure, Unimplemented) and name != INFO


def older(service: str, name: str, version: str) -> Unimplemented:
    """Returns the error for a call that a coordinator of this version does not know."""
    return Unimplemented(
        f"the coordinator has no call {service}.{name}: it is version {version}, and this package {installed()}; "
        "upgrade the coordinator",
        code="UNIMPLEMENTED",
    )
