"""Studies for programs that are written with asyncio: the names of `luthier`, and what waits for the coordinator is
awaited.

    import asyncio
    import luthier.aio

    async def objective(trial):
        x = await trial.suggest_float("x", -10, 10)
        await asyncio.sleep(0.01)
        return (x - 2) ** 2

    async def main():
        study = await luthier.aio.study("parabola")
        await study.optimize(objective, n_trials=25, n_jobs=5)
        print(await study.best_params)

    asyncio.run(main())

Asking, telling, reporting and watching hold no thread; what is called rarely (`trials`, `pause`, ...) runs in the
loop's own threads. Spaces, errors and finished trials are those of `luthier`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Optional, Union, overload

from luthier import _create
from luthier._aio_asking import Asking, Run, Trial
from luthier._aio_calls import close_mine
from luthier._arguments import flag, number, whole
from luthier._create import Worker
from luthier._fingerprint import fingerprint
from luthier._frozen import FrozenTrial, TrialState
from luthier._goals import Goal
from luthier._stored import Importance, Prediction
from luthier._tasks import in_tasks
from luthier.space import SpaceLike
from luthier.study import IfChanged, Study as StudyOfThreads, to_callbacks, to_catch

__all__ = ["Study", "Trial", "close", "from_file", "load", "studies", "study", "undelete", "workers"]

Objective = Callable[[Trial], Union[Any, Awaitable[Any]]]


class Study(Asking):
    """A study of the service, as luthier.Study; what calls the coordinator is awaited, properties too.

        print(await study.best_value)

    `sync` is the same study for threads. Every call may raise LuthierError; classes of luthier.errors say why.
    """

    def __init__(self, study: StudyOfThreads) -> None:
        self.sync: StudyOfThreads = study
        self._asked = study._asked

    def __reduce__(self) -> Any:
        return type(self), (self.sync,)

    def __repr__(self) -> str:
        return f"<luthier.aio.Study {self.name!r}>"

    @property
    def name(self) -> str:
        """The study's id."""
        return self.sync.name

    @property
    def project(self) -> str:
        """The project that the study belongs to."""
        return self.sync.project

    @property
    def metric(self) -> str:
        """The metric that is optimized; of several the first."""
        return self.sync.metric

    @property
    def direction(self) -> str:
        """Either "minimize" or "maximize", of the first objective."""
        return self.sync.direction

    @property
    def goals(self) -> dict[str, str]:
        """The objectives with "minimize" or "maximize" each, in the order in which the study has them."""
        return self.sync.goals

    @property
    def constraints(self) -> dict[str, dict[str, float]]:
        """The bounds on what trials measure, by the names of metrics."""
        return self.sync.constraints

    # --- Optimize ---

    async def optimize(
        self,
        fn: Objective,
        n_trials: Optional[int] = None,
        timeout: Optional[float] = None,
        n_jobs: int = 1,
        *,
        catch: Union[type[BaseException], tuple[type[BaseException], ...]] = (),
        callbacks: Iterable[Callable[[Study, FrozenTrial], Any]] = (),
        progress: Optional[Callable[[FrozenTrial], Any]] = None,
        show_progress_bar: Optional[bool] = None,
        if_changed: Optional[IfChanged] = None,
    ) -> Study:
        """Runs `fn` on `n_trials` more trials, in `n_jobs` tasks at a time (-1: one a core).

        `fn` gets a luthier.aio.Trial and returns, or is a coroutine that returns, what an objective of luthier.Study
        returns; callbacks may be coroutines, too. The first exception that is not in `catch` cancels the other tasks
        and goes on to the caller. Trials of tasks that are cancelled are given back. What is shown, what `if_changed`
        means and the errors are those of luthier.Study. Returns the study.
        """
        if not callable(fn):
            raise TypeError(f"the objective is {fn!r}: it is a function of a trial, or a coroutine function")
        n_trials = None if n_trials is None else whole("n_trials", n_trials)
        if n_trials is not None and n_trials < 0:
            raise ValueError(f"n_trials is {n_trials}: it is at least 0, or None to go on to the end of the study")
        if n_trials == 0:
            return self
        timeout = None if timeout is None else number("timeout", timeout)
        catches, every, n_jobs = to_catch(catch), to_callbacks(callbacks, progress), whole("n_jobs", n_jobs)
        show = None if show_progress_bar is None else flag("show_progress_bar", show_progress_bar)
        objective = fingerprint(fn)
        lines = await asyncio.to_thread(self.sync._begin, objective, n_trials, timeout, if_changed, show)
        if lines is None:
            return self
        run = Run(self, fn, n_trials, timeout, catches, every, objective, lines)
        try:
            await in_tasks(run, n_jobs if n_jobs > 0 else (os.cpu_count() or 1))
        finally:
            lines.end()
        await asyncio.to_thread(self.sync._say_why_it_ended, n_trials, run.left)
        return self

    # --- Trials and the study ---

    @property
    async def state(self) -> str:
        """ACTIVE, PAUSED, STOPPED, CANCELLED or COMPLETED, as it is now."""
        return await asyncio.to_thread(lambda: self.sync.state)

    @property
    async def state_reason(self) -> str:
        """Why it is in that state, for people."""
        return await asyncio.to_thread(lambda: self.sync.state_reason)

    @property
    async def url(self) -> Optional[str]:
        """Where a browser shows the study; None where its coordinator has no page."""
        return await asyncio.to_thread(lambda: self.sync.url)

    @property
    async def spec(self) -> dict[str, Any]:
        """The study file as it is stored, as plain dictionaries and lists."""
        return await asyncio.to_thread(lambda: self.sync.spec)

    @property
    async def trials(self) -> list[FrozenTrial]:
        """All trials, in order of number."""
        return await asyncio.to_thread(lambda: self.sync.trials)

    @property
    async def best_trial(self) -> FrozenTrial:
        """The best COMPLETE trial within the constraints. Raises ValueError while there is none, and for several
        objectives."""
        return await asyncio.to_thread(lambda: self.sync.best_trial)

    @property
    async def recommended_trial(self) -> FrozenTrial:
        """The trial to take: the best one, or, where results are noisy, the one whose setting is expected to be the best."""
        return await asyncio.to_thread(lambda: self.sync.recommended_trial)

    @property
    async def front(self) -> list[FrozenTrial]:
        """The trials within the constraints of which none is at least as good as another in all goals."""
        return await asyncio.to_thread(lambda: self.sync.front)

    @property
    async def hypervolume(self) -> Optional[float]:
        """With several goals, what the front dominates beyond the reference point, from 0 to 1."""
        return await asyncio.to_thread(lambda: self.sync.hypervolume)

    @property
    async def best_value(self) -> float:
        """The best value of the metric. Raises ValueError while there is none."""
        return await asyncio.to_thread(lambda: self.sync.best_value)

    @property
    async def best_params(self) -> dict[str, Any]:
        """The setting of the best trial. Raises ValueError while there is none."""
        return await asyncio.to_thread(lambda: self.sync.best_params)

    async def get_trials(
        self,
        states: Iterable[Union[str, TrialState]] = (),
        *,
        filter: str = "",
        order_by: str = "",
        limit: Optional[int] = None,
    ) -> list[FrozenTrial]:
        """Returns all trials, or those in some states, in order of number. Arguments are those of luthier.Study."""
        return await asyncio.to_thread(self.sync.get_trials, states, filter=filter, order_by=order_by, limit=limit)

    async def trial(self, number: int) -> FrozenTrial:
        """Returns one trial, with its learning curve. Raises NotFound."""
        return await asyncio.to_thread(self.sync.trial, number)

    async def explain(self, number: int) -> dict[str, Any]:
        """Returns why a trial's setting was tried. Raises NotFound."""
        return await asyncio.to_thread(self.sync.explain, number)

    async def trials_dataframe(self, **options: Any) -> Any:
        """Returns the trials as a pandas data frame."""
        return await asyncio.to_thread(self.sync.trials_dataframe, **options)

    async def enqueue(self, params: Mapping[str, Any], attributes: Optional[Mapping[str, Any]] = None) -> FrozenTrial:
        """Adds a setting of the user's, which is tried before any suggestion."""
        return await asyncio.to_thread(self.sync.enqueue, params, attributes)

    async def add_trials(self, trials: Iterable[Any], *, source: str = "") -> list[int]:
        """Adds results from elsewhere. Returns their numbers."""
        return await asyncio.to_thread(self.sync.add_trials, trials, source=source)

    async def import_trials(self, source: Any, *, study_name: Optional[str] = None) -> list[int]:
        """Adds the results of a file or of another tool, and returns their numbers."""
        return await asyncio.to_thread(self.sync.import_trials, source, study_name=study_name)

    async def export(self, path: str, *, curves: bool = False) -> None:
        """Writes all trials to a file, in the form that its name says."""
        await asyncio.to_thread(self.sync.export, path, curves=curves)

    async def set_attributes(self, number: int, attributes: Mapping[str, Any]) -> None:
        """Adds notes to a trial."""
        await asyncio.to_thread(self.sync.set_attributes, number, attributes)

    async def cancel_trial(self, number: int) -> None:
        """Cancels an open trial: its value, should one come, is not taken."""
        await asyncio.to_thread(self.sync.cancel_trial, number)

    async def stop_trial(self, number: int) -> None:
        """Ends a trial early and keeps its value."""
        await asyncio.to_thread(self.sync.stop_trial, number)

    async def delete_trial(self, number: int) -> None:
        """Takes a trial that has ended out of the study."""
        await asyncio.to_thread(self.sync.delete_trial, number)

    async def retry(self, numbers: Sequence[int] = ()) -> list[int]:
        """Tries trials again that failed; all of them where none is named. Returns the numbers of the new trials."""
        return await asyncio.to_thread(self.sync.retry, numbers)

    async def importance(self, metric: Optional[str] = None) -> Importance:
        """Returns the share of the metric's variance that each parameter explains, largest first."""
        return await asyncio.to_thread(self.sync.importance, metric)

    @overload
    async def predict(self, settings: Mapping[str, Any], *, at_seq: int = 0) -> Prediction: ...

    @overload
    async def predict(self, settings: Sequence[Mapping[str, Any]], *, at_seq: int = 0) -> list[Prediction]: ...

    async def predict(self, settings: Any, *, at_seq: int = 0) -> Any:
        """Returns what the study's model expects of a setting, or of each of a list of settings."""
        return await asyncio.to_thread(self.sync.predict, settings, at_seq=at_seq)

    async def update(self, **changes: Any) -> None:
        """Changes what may change: the budget, wider ranges, more labels, and what people read."""
        await asyncio.to_thread(self.sync.update, **changes)

    async def pause(self) -> None:
        """Grants no more trials until `resume`."""
        await asyncio.to_thread(self.sync.pause)

    async def resume(self) -> None:
        """Goes on."""
        await asyncio.to_thread(self.sync.resume)

    async def stop(self) -> None:
        """Ends the study: running trials may finish."""
        await asyncio.to_thread(self.sync.stop)

    async def cancel(self) -> None:
        """Ends the study and its running trials."""
        await asyncio.to_thread(self.sync.cancel)

    async def delete(self) -> None:
        """Removes the study and its trials. For seven days `undelete` brings them back."""
        await asyncio.to_thread(self.sync.delete)


async def study(name: str, space: SpaceLike = None, *, goal: Goal = "minimize", **options: Any) -> Study:
    """Makes a study, or returns the one of this name if it was made with the same words. Options and errors are those
    of `luthier.study`."""
    return Study(await asyncio.to_thread(_create.make, name, space, goal=goal, **options))


async def load(
    name: str, *, server: Optional[str] = None, db: Optional[str] = None, accept_plaintext: bool = False
) -> Study:
    """Returns the study of this name. Raises NotFound."""
    where: dict[str, Any] = {"server": server, "db": db, "accept_plaintext": accept_plaintext}
    return Study(await asyncio.to_thread(_create.load, name, **where))


async def undelete(
    name: str,
    new_name: Optional[str] = None,
    *,
    server: Optional[str] = None,
    db: Optional[str] = None,
    accept_plaintext: bool = False,
) -> Study:
    """Brings back a study that was deleted in the last seven days, as `luthier.undelete`."""
    where: dict[str, Any] = {"server": server, "db": db, "accept_plaintext": accept_plaintext}
    return Study(await asyncio.to_thread(_create.undelete, name, new_name, **where))


async def studies(
    *,
    deleted: bool = False,
    project: Optional[str] = None,
    server: Optional[str] = None,
    db: Optional[str] = None,
    accept_plaintext: bool = False,
) -> list[Study]:
    """Returns all studies of a project, in order of name; `deleted`: those that `undelete` brings back."""
    where: dict[str, Any] = {"server": server, "db": db, "accept_plaintext": accept_plaintext}
    return [Study(one) for one in await asyncio.to_thread(_create.studies, deleted=deleted, project=project, **where)]


async def workers(
    *,
    project: Optional[str] = None,
    server: Optional[str] = None,
    db: Optional[str] = None,
    accept_plaintext: bool = False,
) -> list[Worker]:
    """Returns the workers that a coordinator knows in a project."""
    where: dict[str, Any] = {"server": server, "db": db, "accept_plaintext": accept_plaintext}
    return await asyncio.to_thread(_create.workers, project=project, **where)


async def from_file(
    path: str,
    name: Optional[str] = None,
    *,
    server: Optional[str] = None,
    db: Optional[str] = None,
    accept_plaintext: bool = False,
) -> Study:
    """Makes the study of a study file, or returns it. Raises LuthierError with what is wrong with the file."""
    where: dict[str, Any] = {"server": server, "db": db, "accept_plaintext": accept_plaintext}
    return Study(await asyncio.to_thread(_create.from_file, path, name, **where))


async def close() -> None:
    """Ends the connections of the running event loop. The next call makes new ones."""
    await close_mine()
