"""A trial of an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import luthier.trial
from luthier import _wire
from luthier._aio_calls import Calls
from luthier._retry import FINISH, Policy
from luthier.errors import LuthierError
from luthier.space import Categorical, Domain, Float, Int, to_spec
from luthier.trial import UNCHANGED, Choice, Value


class Trial:
    """A trial that this program runs, as luthier.Trial; what calls the coordinator is awaited."""

    def __init__(self, calls: Calls, trial: luthier.trial.Trial) -> None:
        self._calls = calls
        self._trial = trial

    def __repr__(self) -> str:
        return repr(self._trial).replace("luthier.Trial", "luthier.aio.Trial", 1)

    # --- Parameters ---

    @property
    def params(self) -> dict[str, Any]:
        """All parameters of the setting, by name. In an open space those that were asked for so far."""
        return self._trial.params

    @property
    def suggested(self) -> dict[str, Any]:
        """The whole setting as it was suggested. In an open space all of it then counts as asked for."""
        return self._trial.suggested

    def __getitem__(self, name: str) -> Any:
        return self._trial[name]

    def __contains__(self, name: str) -> bool:
        return name in self._trial

    async def suggest_float(
        self, name: str, low: float, high: float, *, step: Optional[float] = None, log: bool = False
    ) -> float:
        """Returns the value of a number from `low` to `high`. Errors as of luthier.Trial."""
        return float(await self._suggest(name, Float(low, high, log=log, step=step)))

    async def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Returns the value of a whole number from `low` to `high`, both included. Errors as of luthier.Trial."""
        return int(await self._suggest(name, Int(low, high, log=log, step=step)))

    async def suggest_categorical(self, name: str, choices: Sequence[Choice]) -> Choice:
        """Returns one of `choices`: texts, numbers, True, False or None. Errors as of luthier.Trial."""
        chosen: Choice = await self._suggest(name, Categorical(choices))
        return chosen

    async def _suggest(self, name: str, domain: Domain) -> Any:
        spec = to_spec(name, domain)
        known = self._trial._study._space.by_legal.get(spec.name)
        if known is not None and known.accepts(spec) and spec.name in self._trial._fields:
            return self._trial._suggest(name, domain)  # Makes no call.
        return await asyncio.to_thread(self._trial._suggest, name, domain)

    # --- What the service says about it ---

    @property
    def number(self) -> int:
        """Its number in the study, from 1."""
        return self._trial.number

    @property
    def attempt(self) -> int:
        """How often it was granted, this time included."""
        return self._trial.attempt

    @property
    def start_step(self) -> int:
        """The step that `checkpoint` was saved at by an earlier attempt; 0: begin afresh."""
        return self._trial.start_step

    @property
    def target_step(self) -> Optional[int]:
        """Train to this step and no further; None: there is no target."""
        return self._trial.target_step

    @property
    def checkpoint(self) -> Optional[str]:
        """Where an earlier attempt of this trial left off; None: begin afresh."""
        return self._trial.checkpoint

    @property
    def tolerance(self) -> Optional[float]:
        """How exactly an objective with an inner problem need solve it; None: to all digits."""
        return self._trial.tolerance

    @property
    def direction(self) -> Optional[dict[str, float]]:
        """Along which a slope of the metric is asked for, by parameters' names; None: none is."""
        return self._trial.direction

    @property
    def wants_gradient(self) -> bool:
        """Whether the search can use a gradient of this trial."""
        return self._trial.wants_gradient

    @property
    def seed(self) -> int:
        """A number below 2^31, the same for every attempt of this trial, different between trials."""
        return self._trial.seed

    def explain(self) -> dict[str, Any]:
        """Returns why this setting is tried: designer, origin, what the model predicted."""
        return self._trial.explain()

    def should_stop(self) -> bool:
        """Whether training is to end: raise TrialPruned then."""
        return self._trial.should_stop()

    should_prune = should_stop

    def should_pause(self) -> bool:
        """Whether the target is reached: save a checkpoint, report it, and return."""
        return self._trial.should_pause()

    # --- Reports ---

    async def report(
        self,
        value: Optional[Value] = None,
        step: Optional[int] = None,
        *,
        metrics: Optional[Mapping[str, float]] = None,
        gradient: Optional[Mapping[str, Any]] = None,
        checkpoint: Optional[str] = None,
    ) -> str:
        """Reports a point of the learning curve and returns what the service says: CONTINUE, STOP, FINISH or PAUSE.
        Arguments and errors are those of luthier.Trial."""
        trial = self._trial
        m = trial._measured(value, step, metrics, gradient)
        request = _wire.message("ReportRequest")(trial=trial.name, token=trial._lease.token, measurements=[m])
        if checkpoint is not None:
            trial._save(str(checkpoint), request)
        trial._last = m
        try:
            reply = await self._calls.call("WorkerService", "Report", request, policy=FINISH)
        except LuthierError as error:
            return trial._not_taken(error)
        return trial._taken(reply)

    async def set_attribute(self, key: str, value: Any) -> None:
        """Stores a note with the trial: a text of at most 64 KiB; other values as JSON."""
        await asyncio.to_thread(self._trial.set_attribute, key, value)

    async def set_user_attr(self, key: str, value: Any) -> None:
        """Stores any JSON value with the trial; `user_attrs` gives it back."""
        await asyncio.to_thread(self._trial.set_user_attr, key, value)

    # --- Its end ---

    async def _end(self, method: str, request: Any, policy: Policy = FINISH) -> Any:
        study = self._trial._study
        try:
            reply = await self._calls.call("WorkerService", method, request, policy=policy)
        except UNCHANGED:
            raise
        except BaseException:
            study._forget(self._trial)
            raise
        self._trial._has_ended(request, reply)
        return reply

    async def _complete(self, m: Any, *, pruned: bool = False, checkpoint: str = "") -> list[str]:
        request = self._trial._complete_request(m, pruned=pruned, checkpoint=checkpoint)
        return list((await self._end("Complete", request)).warnings)

    async def _fail(self, reason: str, message: str, *, retry: bool = False) -> bool:
        """Ends the trial without a result; returns whether that is final."""
        reply = await self._end("Fail", self._trial._fail_request(reason, message, retry=retry))
        for warning in reply.warnings:
            self._trial._warn("%s", warning)
        return bool(reply.state != _wire.enum("Trial.State")["PENDING"])

    async def _release(self) -> None:
        """Gives the trial back, if that takes no more than some seconds."""
        trial = self._trial
        request = _wire.message("ReleaseRequest")(trial=trial.name, token=trial._lease.token)
        trial._pass_on(request)
        try:
            await self._end("Release", request, Policy(attempts=10, patience=5.0))
        except LuthierError:
            pass  # Its lease ends, and it is tried again.
