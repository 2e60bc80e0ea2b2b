"""luthier.aio: the words of luthier in an event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import luthier
import luthier.aio

SPACE = {"x": (-10.0, 10.0)}


def states(study: luthier.aio.Study) -> list[str]:
    return [trial.state.name for trial in study.sync.trials]


def test_optimize_runs_coroutines_side_by_side(session_db: str, name: str) -> None:
    running = most = 0

    async def objective(trial: luthier.aio.Trial) -> float:
        nonlocal running, most
        x = await trial.suggest_float("x", -10, 10)
        depth = await trial.suggest_int("depth", 1, 4)
        kind = await trial.suggest_categorical("kind", ["a", "b"])
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        assert trial.params == {"x": x, "depth": depth, "kind": kind}
        return (x - 2) ** 2 + depth

    async def main() -> luthier.aio.Study:
        study = await luthier.aio.study(name, db=session_db)
        assert await study.optimize(objective, n_trials=25, n_jobs=5) is study
        assert await study.best_value < 20
        assert set(await study.best_params) == {"x", "depth", "kind"}
        assert len(await study.trials) == 25
        await study.optimize(objective, n_trials=5)
        return study

    study = asyncio.run(main())
    assert 2 <= most <= 5
    assert states(study) == ["COMPLETE"] * 30


def test_ask_and_tell(session_db: str, name: str) -> None:
    async def main() -> None:
        study = await luthier.aio.study(name, SPACE, algorithm="random", max_trials=6, db=session_db)
        trial = await study.ask()
        assert trial.number == 1 and trial.attempt == 1 and "x" in trial and -10 <= trial["x"] <= 10
        assert await trial.report(3.0, step=1) == "CONTINUE"
        assert not trial.should_stop() and not trial.should_pause()
        await trial.set_user_attr("note", {"a": 1})
        assert await study.tell(trial, 1.5, gradient={"x": -2.0}) == []
        some = await study.ask(3)
        assert [type(one) for one in some] == [luthier.aio.Trial] * len(some)
        await study.tell(some[0].number, {"value": 4.0, "other": 1.0})
        await study.tell(some[1], state="FAILED")
        await study.tell(some[2], state="PRUNED")
        with pytest.raises(luthier.LuthierError):
            await study.tell(trial, 2.0)
        first, second, third, fourth = (await study.trials)[:4]
        assert first.gradient == {"x": -2.0} and first.user_attrs == {"note": {"a": 1}}
        assert second.metrics == {"value": 4.0, "other": 1.0}
        assert (third.state, fourth.state) == ("FAILED", "PRUNED")
        last = await study.ask(5)
        assert len(last) == 2
        assert await study.ask(timeout=1) is None
        for one in last:
            await study.tell(one, 0.0)
        assert await study.ask() is None
        assert await study.state == "COMPLETED"

    asyncio.run(main())


def test_errors_of_objectives(session_db: str, name: str) -> None:
    async def objective(trial: luthier.aio.Trial) -> Any:
        if trial.number == 1:
            raise KeyError("one")
        if trial.number == 2:
            await trial.report(7.0, step=3)
            raise luthier.TrialPruned()
        return "no number" if trial.number == 4 else trial["x"]

    async def main() -> luthier.aio.Study:
        study = await luthier.aio.study(name, SPACE, algorithm="random", max_trials=6, db=session_db)
        seen: list[int] = []

        async def callback(_: luthier.aio.Study, trial: luthier.FrozenTrial) -> None:
            seen.append(trial.number)

        await study.optimize(objective, n_trials=6, catch=KeyError, callbacks=[callback], progress=lambda trial: None)
        assert sorted(seen) == [1, 2, 3, 4, 5, 6]
        return study

    study = asyncio.run(main())
    assert states(study) == ["FAILED", "PRUNED", "COMPLETE", "FAILED", "COMPLETE", "COMPLETE"]
    trials = study.sync.trials
    assert "KeyError" in trials[0].failure and trials[1].value == 7.0 and "BAD_OUTPUT" in trials[3].failure


def test_retry_puts_a_trial_back(session_db: str, name: str) -> None:
    async def objective(trial: luthier.aio.Trial) -> float:
        if trial.number == 2:
            raise luthier.Retry("the disk was full")
        return float(trial["x"])

    async def main() -> luthier.aio.Study:
        study = await luthier.aio.study(name, SPACE, algorithm="random", max_trials=3, db=session_db)
        return await study.optimize(objective, timeout=1.5)  # The second attempt begins after some time.

    assert states(asyncio.run(main())) == ["COMPLETE", "PENDING", "COMPLETE"]


def test_the_first_error_gives_the_other_trials_back(session_db: str, name: str) -> None:
    async def objective(trial: luthier.aio.Trial) -> float:
        if trial.number == 3:
            raise RuntimeError("no")
        await asyncio.sleep(30)
        return 0.0

    async def main() -> luthier.aio.Study:
        study = await luthier.aio.study(name, SPACE, algorithm="random", max_trials=9, db=session_db)
        with pytest.raises(RuntimeError, match="no"):
            await study.optimize(objective, n_jobs=3)
        return study

    began = time.monotonic()
    study = asyncio.run(main())
    assert time.monotonic() - began < 10
    assert sorted(states(study)) == ["FAILED", "PENDING", "PENDING"]


def test_what_a_pruned_trial_left_out_is_said(session_db: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    async def objective(trial: luthier.aio.Trial) -> float:
        raise luthier.TrialPruned()

    async def main() -> None:
        study = await luthier.aio.study(name, algorithm="random", db=session_db)
        await study.enqueue({"x": 0.5})
        await study.optimize(objective, n_trials=1)

    asyncio.run(main())
    assert "not used: x = 0.5" in caplog.text


def test_a_report_that_is_refused_is_malformed(session_db: str, name: str) -> None:
    async def objective(trial: luthier.aio.Trial) -> float:
        if trial.number == 1:
            await trial.report(None)
        assert [await trial.report(value, step=1) for value in (0.1, 0.2)] == ["CONTINUE"] * 2
        return 0.5

    async def main() -> luthier.aio.Study:
        study = await luthier.aio.study(name, SPACE, algorithm="random", db=session_db)
        await study.optimize(objective, n_trials=2)
        return study

    study = asyncio.run(main())
    assert states(study) == ["FAILED", "COMPLETE"]


def test_cancelled_tasks_give_their_trials_back(session_db: str, name: str) -> None:
    async def objective(trial: luthier.aio.Trial) -> float:
        await trial.report(1.0, step=5, checkpoint="here")
        await asyncio.sleep(30)
        return 0.0

    async def main() -> luthier.aio.Study:
        study = await luthier.aio.study(name, SPACE, algorithm="random", max_trials=9, db=session_db)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(study.optimize(objective, n_jobs=2), 1.0)
        again = await study.ask()
        assert (again.checkpoint, again.attempt) == ("here", 2)
        await study.tell(again, 1.0)
        return study

    assert sorted(states(asyncio.run(main()))) == ["COMPLETE", "PENDING"]


def test_an_ask_that_is_cancelled_leaves_no_lease(session_db: str, name: str) -> None:
    async def main() -> luthier.aio.Study:
        study = await luthier.aio.study(name, SPACE, algorithm="random", max_trials=40, db=session_db)
        for i in range(20):
            asking = asyncio.create_task(study.ask())
            await asyncio.sleep(0.0005 * i)
            asking.cancel()
            trial = (await asyncio.gather(asking, return_exceptions=True))[0]
            if isinstance(trial, luthier.aio.Trial):
                await study.tell(trial, 0.0)
        return study

    assert "RUNNING" not in states(asyncio.run(main()))


def test_sigterm_gives_trials_back(db: str, name: str, tmp_path: Path) -> None:
    luthier.study(name, SPACE, algorithm="random", max_trials=9, db=db)
    started = tmp_path / "started"
    program = f"""
import asyncio, pathlib, luthier.aio
async def objective(trial):
    pathlib.Path({str(started)!r}).touch()
    await asyncio.sleep(60)
async def main():
    study = await luthier.aio.load({name!r}, db={db!r})
    await study.optimize(objective, n_jobs=2)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program]) as child:
        while not started.exists():
            assert child.poll() is None
            time.sleep(0.02)
        time.sleep(0.2)
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 128 + signal.SIGTERM
    assert "RUNNING" not in [trial.state.name for trial in luthier.load(name, db=db).trials]


def test_a_coordinator_that_dies_is_started_again(db: str, name: str) -> None:
    async def main() -> luthier.aio.Study:
        study = await luthier.aio.study(name, SPACE, algorithm="random", max_trials=60, db=db)
        killed = False

        async def objective(trial: luthier.aio.Trial) -> float:
            nonlocal killed
            await asyncio.sleep(0.01)
            if trial.number == 20 and not killed:
                killed = True
                local = study.sync._client.local
                assert local is not None and local._process is not None
                os.kill(local._process.pid, signal.SIGKILL)
            return float(trial["x"])

        await study.optimize(objective, n_jobs=8)
        return study

    assert states(asyncio.run(main())) == ["COMPLETE"] * 60


def test_watch_yields_events_while_trials_run(session_db: str, name: str) -> None:
    async def main() -> None:
        study = await luthier.aio.study(name, SPACE, algorithm="random", max_trials=5, db=session_db)

        async def watch() -> list[str]:
            return [event.type async for event in study.watch()]

        watching = asyncio.create_task(watch())
        await study.optimize(lambda trial: trial["x"])
        types = await asyncio.wait_for(watching, 10)
        assert len([kind for kind in types if kind.endswith("COMPLETED")]) >= 5
        endless = asyncio.create_task(_first_of(study))
        assert (await asyncio.wait_for(endless, 10)).type == "STUDY_CREATED"

    asyncio.run(main())


async def _first_of(study: luthier.aio.Study) -> Any:
    async for event in study.watch(until_finished=False):
        return event


def test_two_loops_and_the_words_of_the_module(session_db: str, name: str, tmp_path: Path) -> None:
    async def make() -> None:
        study = await luthier.aio.study(name, SPACE, algorithm="random", max_trials=8, db=session_db)
        await study.enqueue({"x": 3.0})
        await study.optimize(lambda trial: trial["x"], n_trials=2)
        await luthier.aio.close()
        await study.optimize(lambda trial: trial["x"], n_trials=1)

    async def use() -> None:
        study = await luthier.aio.load(name, db=session_db)
        assert name in [one.name for one in await luthier.aio.studies(db=session_db)]
        assert (await study.trial(1)).params == {"x": 3.0}
        assert await study.add_trials([{"params": {"x": 1.0}, "value": 1.0}]) == [4]
        await study.pause()
        assert await study.state == "PAUSED"
        await study.resume()
        await study.update(max_trials=20)
        await study.export(str(tmp_path / "trials.jsonl"))
        assert (await study.explain(1))["origin"]
        assert repr(study) == f"<luthier.aio.Study {name!r}>"
        with pytest.raises(luthier.NotFound):
            await luthier.aio.load("there-is-none", db=session_db)
        await study.delete()

    asyncio.run(make())
    asyncio.run(use())


def test_the_package_names_it_without_an_import(tmp_path: Path) -> None:
    """`import luthier` alone has luthier.aio, and `from luthier import *` needs no package that is not there."""
    program = "from luthier import *\nimport luthier, sys\nassert luthier.aio.Study and study is luthier.study\n"
    program += "assert not {'torch', 'jax', 'optuna', 'sklearn', 'numpy', 'pandas'} & set(sys.modules)\n"
    program += "assert 'luthier.integrations' not in sys.modules\n"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
