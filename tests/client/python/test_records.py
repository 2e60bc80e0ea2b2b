"""What is stored of a study and what its model says: lists that are filtered, predictions, explanations, workers."""

from __future__ import annotations

import asyncio
import math
import threading
import time

import pytest
from programs import wait

import luthier
import luthier.aio


@pytest.fixture()
def parabola(name: str, session_db: str) -> luthier.Study:
    """Twenty results of a parabola with its minimum at 0.3; b costs 1 more."""
    study = luthier.study(name, {"x": (0.0, 1.0), "größe": ["a", "b"]}, algorithm="bo", metric="loss", db=session_db)
    return study.optimize(lambda t: {"loss": (t["x"] - 0.3) ** 2 + (t["größe"] == "b"), "twice": 2.0}, n_trials=20)


def test_lists_are_filtered_and_ordered_by_the_service(parabola: luthier.Study) -> None:
    every = parabola.trials
    low = parabola.get_trials(filter="metrics.loss < 0.5 AND params.x > 0.1", order_by="metrics.loss desc")
    expected = [t for t in every if t.metrics["loss"] < 0.5 and t.params["x"] > 0.1]
    assert 0 < len(low) < 20 and low == sorted(expected, key=lambda t: (-t.metrics["loss"], t.number))
    first = parabola.get_trials(order_by="metrics.loss", limit=3)
    assert [t.number for t in first] == [t.number for t in sorted(every, key=lambda t: (t.value, t.number))[:3]]
    assert parabola.get_trials("COMPLETE", limit=2) == every[:2] and parabola.get_trials(limit=0) == []
    assert parabola.get_trials(["FAIL", luthier.TrialState.PRUNED]) == []


def test_filters_and_states_that_are_wrong(parabola: luthier.Study) -> None:
    with pytest.raises(luthier.BadField, match="nope"):
        parabola.get_trials(filter="nope = 3")
    with pytest.raises(luthier.BadField, match="order_by"):
        parabola.get_trials(order_by="nope")
    with pytest.raises(ValueError, match="'DONE' is no state of a trial: CANCELLED, COMPLETE"):
        parabola.get_trials(["DONE"])


def test_predictions_come_near_what_is_true(parabola: luthier.Study) -> None:
    one = parabola.predict({"x": 0.35, "größe": "a"})
    assert isinstance(one, luthier.Prediction)
    assert one.mean == pytest.approx(0.0025, abs=0.02) and 0 <= one.sd < 0.1 and one.p_success is None
    settings = [{"x": 0.35, "größe": "a"}, {"x": 0.9, "größe": "b"}]
    assert parabola.predict(settings)[0] == one and parabola.predict(settings)[1].mean > 1
    assert parabola.predict([]) == []
    past = parabola.predict({"x": 0.35, "größe": "a"}, at_seq=parabola.explain(15)["prefix_seq"])
    assert past != one and past.sd > one.sd


def test_predictions_of_wrong_settings(parabola: luthier.Study, name: str, session_db: str) -> None:
    for setting, match in [({"x": 3.0, "größe": "a"}, "outside"), ({"x": 0.5}, "größe: is missing"), ({"y": 1}, "y")]:
        with pytest.raises(luthier.BadField, match=match):
            parabola.predict(setting)
    blind = luthier.study(name + "-random", {"x": (0.0, 1.0)}, algorithm="random", db=session_db)
    with pytest.raises(luthier.NoModel):
        blind.predict({"x": 0.5})


def test_a_trial_is_explained(parabola: luthier.Study) -> None:
    number, told = next((n, t) for n in range(8, 20) if (t := parabola.explain(n))["predicted"] is not None)
    assert told["designer"] == "bo" and any("loss = " in text for text in told["sentences"])
    result = parabola.trial(number).value
    assert isinstance(told["predicted"], luthier.Prediction)
    assert told["surprise"] == pytest.approx((result - told["predicted"].mean) / told["predicted"].sd, rel=1e-6)
    first = parabola.explain(1)
    assert first["predicted"] is None and first["surprise"] is None
    with pytest.raises(luthier.NotFound):
        parabola.explain(99)


def test_a_trial_that_is_stopped_keeps_its_value(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, algorithm="random", db=session_db)
    heard: list[object] = []

    def objective(trial: luthier.Trial) -> float:
        heard.append(trial.report(0.5, step=1))
        study.stop_trial(trial.number)
        heard.append(trial.report(0.25, step=2))
        heard.append(trial.should_stop())
        raise luthier.TrialPruned

    study.optimize(objective, n_trials=1)
    assert heard == ["CONTINUE", "FINISH", True]
    stopped = study.trial(1)
    assert (stopped.state, stopped.value, stopped.step) == ("PRUNED", 0.25, 2)
    study.stop_trial(1)
    assert study.trial(1) == stopped
    study.enqueue({"x": 0.5})
    with pytest.raises(luthier.NotGranted):
        study.stop_trial(2)


def test_who_goes_on_to_the_end_of_a_stopped_trial_is_pruned_too(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, algorithm="random", db=session_db)
    trial = study.ask()
    study.stop_trial(trial.number)
    study.tell(trial, 0.75)
    assert (study.trial(1).state, study.trial(1).value) == ("PRUNED", 0.75)
    trial = study.ask()
    study.stop_trial(trial.number)
    study.tell(trial, state="PRUNED")
    assert (study.trial(2).state, study.trial(2).value) == ("PRUNED", None)


def test_heartbeats_bring_the_word_to_a_silent_objective(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, algorithm="random", db=session_db, lease_ttl=10)
    began = threading.Event()

    def objective(trial: luthier.Trial) -> float:
        trial.report(0.5)
        began.set()
        deadline = time.monotonic() + 30
        while not trial.should_stop():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        raise luthier.TrialPruned

    job = threading.Thread(target=study.optimize, args=(objective, 1))
    job.start()
    assert began.wait(30)
    luthier.load(name, db=session_db).stop_trial(1)
    job.join(60)
    assert (study.trial(1).state, study.trial(1).value) == ("PRUNED", 0.5)


def test_trials_that_failed_are_tried_again_and_those_that_ended_deleted(name: str, session_db: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, algorithm="random", db=session_db)
    study.optimize(lambda t: math.nan if t.number < 3 else t["x"], n_trials=4)
    assert study.retry([2]) == [5] and study.retry() == [6]
    study.optimize(lambda t: t["x"], n_trials=2)
    assert {t.number: t.params for t in study.trials}[5] == study.trial(2).params
    study.delete_trial(1)
    assert [t.number for t in study.trials] == [2, 3, 4, 5, 6] and len(study) == 5
    with pytest.raises(luthier.NotFound):
        study.trial(1)


def test_workers_are_listed(parabola: luthier.Study, session_db: str) -> None:
    held = parabola.ask(worker="me")
    wait(lambda: [w.granted for w in luthier.workers(db=session_db) if w.name == "me"] == [1])
    mine = {w.name: w for w in luthier.workers(db=session_db)}["me"]
    assert (mine.leases, mine.granted, mine.completed) == (1, 1, 0)
    assert abs(mine.last_seen - time.time()) < 60 and mine.first_seen <= mine.last_seen
    parabola.tell(held, {"loss": 1.0, "twice": 1.0})

    def told() -> bool:  # What workers did is counted a moment after it is stored.
        now = {w.name: w for w in luthier.workers(db=session_db)}["me"]
        return (now.leases, now.completed) == (0, 1)

    wait(told)


def test_the_same_with_asyncio(parabola: luthier.Study, session_db: str) -> None:
    async def main() -> None:
        study = await luthier.aio.load(parabola.name, db=session_db)
        assert study.project == "default"
        assert await study.get_trials(order_by="metrics.loss", limit=1) == [await study.best_trial]
        setting = {"x": 0.35, "größe": "a"}
        assert await study.predict(setting) == parabola.predict(setting)
        assert await study.predict([setting]) == [parabola.predict(setting)]
        assert (await study.explain(15))["sentences"]
        assert await luthier.aio.workers(db=session_db)
        trial = await study.ask()
        await study.stop_trial(trial.number)
        assert await trial.report(0.5) == "FINISH" and trial.should_stop() and trial.tolerance is None
        await study.tell(trial, state="PRUNED")
        assert (await study.trial(trial.number)).value == 0.5
        await luthier.aio.close()

    asyncio.run(main())
