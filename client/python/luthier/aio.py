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
from typing import Any, Optional

from luthier import _create
from luthier._aio_calls import close_mine
from luthier._aio_study import Study
from luthier._aio_trial import Trial
from luthier._create import Goal, Worker
from luthier.space import SpaceLike

__all__ = ["Study", "Trial", "close", "from_file", "load", "studies", "study", "workers"]


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


async def studies(
    *,
    project: Optional[str] = None,
    server: Optional[str] = None,
    db: Optional[str] = None,
    accept_plaintext: bool = False,
) -> list[Study]:
    """Returns all studies of a project, in order of name."""
    where: dict[str, Any] = {"server": server, "db": db, "accept_plaintext": accept_plaintext}
    return [Study(one) for one in await asyncio.to_thread(_create.studies, project=project, **where)]


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
