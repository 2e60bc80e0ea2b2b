"""What can go wrong. Every error of the service has a class by its reason; the message is the service's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional


@dataclass(frozen=True)
class Violation:
    """One field of a request that is wrong, and why."""

    field: str
    description: str


class LuthierError(Exception):
    """An error of the service, or of reaching it. `reason` is stable; branch on it or on the class, never on the
    text."""

    reason: str = ""

    def __init__(
        self,
        message: str,
        *,
        reason: Optional[str] = None,
        violations: tuple[Violation, ...] = (),
        retry_delay: float = 0.0,
        code: str = "",
    ) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason
        self.violations: tuple[Violation, ...] = violations
        self.retry_delay: float = retry_delay
        self.code: str = code


class BadField(LuthierError, ValueError):
    """A field of the request is wrong: `violations` names every one."""

    reason = "BAD_FIELD"


class RequestIdReused(LuthierError):
    """An id of a request was used for another request."""

    reason = "REQUEST_ID_REUSED"


class NotFound(LuthierError, KeyError):
    """There is no such study or trial."""

    reason = "NOT_FOUND"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class StudyExists(LuthierError):
    """A study of this name differs: the message names the first field that does."""

    reason = "STUDY_EXISTS"


class LeaseLost(LuthierError):
    """The trial was granted to another worker, as this one was silent for too long: drop it and ask again."""

    reason = "LEASE_LOST"


class TrialFinal(LuthierError):
    """The trial has ended already."""

    reason = "TRIAL_FINAL"


class ConflictingReport(LuthierError):
    """The same step or result was reported before with other content."""

    reason = "CONFLICTING_REPORT"


class StudyPaused(LuthierError):
    """The study is paused."""

    reason = "STUDY_PAUSED"


class StudyFinished(LuthierError):
    """The study has ended and takes no more trials."""

    reason = "STUDY_FINISHED"


class ObjectiveChanged(LuthierError):
    """The objective is another one than that of the study's last trials, and `if_changed` is "raise"."""

    reason = "OBJECTIVE_CHANGED"


class Unsupported(LuthierError, NotImplementedError):
    """A word of another package that Luthier has no counterpart of: the message says what to write instead."""

    reason = "UNSUPPORTED"


class TrialsRunning(LuthierError):
    """Trials are still running: cancel them first."""

    reason = "TRIALS_RUNNING"


class TrialOpen(LuthierError):
    """The trial has not ended yet."""

    reason = "TRIAL_OPEN"


class Reproducible(LuthierError):
    """A reproducible study takes no results from elsewhere."""

    reason = "REPRODUCIBLE"


class NotOpen(LuthierError):
    """The study's space is not open: its parameters are those that it was made with."""

    reason = "NOT_OPEN"


class ParameterDiffers(LuthierError, ValueError):
    """A parameter was asked for with another range than before."""

    reason = "PARAMETER_DIFFERS"


class TooFewResults(LuthierError):
    """There are not enough results for an answer."""

    reason = "TOO_FEW_RESULTS"


class NotGranted(LuthierError):
    """A trial that waits for a worker has no result to end with: cancel it."""

    reason = "NOT_GRANTED"


class NoModel(LuthierError):
    """The study's algorithm has no model of the metric."""

    reason = "NO_MODEL"


class LimitExceeded(LuthierError):
    """A limit of the service would be exceeded: the message names it."""

    reason = "LIMIT_EXCEEDED"


class MessageTooLarge(LuthierError):
    """A request or a reply does not fit a message: ask for less."""

    reason = "MESSAGE_TOO_LARGE"


class QueueFull(LuthierError):
    """The coordinator has too much waiting for its disk: try again after `retry_delay`."""

    reason = "QUEUE_FULL"


class ServerMemory(LuthierError):
    """The coordinator is short of memory: try again after `retry_delay`."""

    reason = "MEMORY"


class ServerBug(LuthierError):
    """The coordinator has a bug: please report it."""

    reason = "BUG"


class Unavailable(LuthierError):
    """The coordinator can't be reached, or can't take the call now."""


class Draining(Unavailable):
    """The coordinator is stopping."""

    reason = "DRAINING"


class StorageFull(Unavailable):
    """The coordinator's disk is full."""

    reason = "STORAGE_FULL"


class StorageLow(Unavailable):
    """The coordinator's disk is nearly full: it takes results, and nothing new."""

    reason = "STORAGE_LOW"


class Starting(Unavailable):
    """The coordinator is starting."""

    reason = "STARTING"


class ReplyLost(Unavailable):
    """The change was made, but its reply could not be read back."""

    reason = "REPLY_LOST"


class Unimplemented(LuthierError):
    """The coordinator is older than this package and lacks the call."""

    reason = "UNIMPLEMENTED"


class Forbidden(LuthierError):
    """The coordinator does not serve this caller: LUTHIER_TOKEN_FILE or LUTHIER_TOKEN has the token that it wants."""


class NoToken(Forbidden):
    """The coordinator wants a token."""

    reason = "NO_TOKEN"


class BadToken(Forbidden):
    """The coordinator does not know the token."""

    reason = "BAD_TOKEN"


class TokenExpired(Forbidden):
    """The token has expired."""

    reason = "EXPIRED"


class TokenRevoked(Forbidden):
    """The token was revoked."""

    reason = "REVOKED"


class RoleMissing(Forbidden):
    """The token's roles do not allow the call: the message names the role that does."""

    reason = "ROLE"


class TrialPruned(Exception):
    """Raised by an objective: it gives up on this setting; the last value that it reported stands."""


class Retry(Exception):
    """Raised by an objective: the failure says nothing about the setting, which is to be tried again."""


_BY_REASON: dict[str, type[LuthierError]] = {
    kind.reason: kind
    for kind in (
        BadField,
        RequestIdReused,
        NotFound,
        StudyExists,
        LeaseLost,
        TrialFinal,
        ConflictingReport,
        StudyPaused,
        StudyFinished,
        TrialsRunning,
        TrialOpen,
        Reproducible,
        NotOpen,
        ParameterDiffers,
        TooFewResults,
        NotGranted,
        NoModel,
        LimitExceeded,
        MessageTooLarge,
        QueueFull,
        ServerMemory,
        ServerBug,
        Draining,
        StorageFull,
        StorageLow,
        Starting,
        ReplyLost,
        Unimplemented,
        NoToken,
        BadToken,
        TokenExpired,
        TokenRevoked,
        RoleMissing,
    )
}


def from_detail(code: str, message: str, detail: Optional[Any]) -> LuthierError:
    """Makes the error that a call ended with: `code` of gRPC, and the service's ErrorDetail where it sent one."""
    reason = detail.reason if detail is not None else ""
    kind = _BY_REASON.get(reason)
    if kind is None and code == "RESOURCE_EXHAUSTED" and "larger than max" in message:
        kind = MessageTooLarge  # It is gRPC itself that refuses what is far too large.
    if kind is None:
        kind = Unavailable if code in ("UNAVAILABLE", "DEADLINE_EXCEEDED") else LuthierError
        kind = {"UNIMPLEMENTED": Unimplemented, "UNAUTHENTICATED": Forbidden, "PERMISSION_DENIED": Forbidden}.get(
            code, kind
        )
    violations: tuple[Violation, ...] = ()
    delay = 0.0
    if detail is not None:
        violations = tuple(Violation(v.field, v.description) for v in detail.violations)
        delay = detail.retry_delay.seconds + 1e-9 * detail.retry_delay.nanos
    return kind(message, reason=reason or None, violations=violations, retry_delay=delay, code=code)
