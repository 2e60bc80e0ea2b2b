"""LuthierSearch under Ray Tune itself: ASHA, a kill half-way, and a restore that loses nothing and asks nothing
twice."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import luthier

pytestmark = pytest.mark.peers
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[tune]'")
tune = pytest.importorskip("ray.tune", reason="Ray Tune is not installed: pip install 'ray[tune]'")

from luthier.integrations.ray import LuthierSearch  # noqa: E402

SPACE: dict[str, Any] = {
    "lr": tune.loguniform(1e-4, 1.0),
    "net": {"width": tune.qrandint(8, 64, 8), "act": tune.choice(["relu", "tanh", None])},
    "drop": tune.quniform(0.0, 0.5, 0.1),
    "layers": tune.randint(1, 4),
    "constant": 7,
}

PROGRAM = """
import json, os, sys, time
from ray import tune
import ray
from luthier.integrations.ray import LuthierSearch
from ray.tune.schedulers import ASHAScheduler

def train(config):
    with open(os.path.join({folder!r}, "starts"), "a") as file:
        file.write(json.dumps(config["x"]) + "\\n")
    for step in range(1, 5):
        time.sleep(0.1)
        tune.report({{"loss": (config["x"] - 0.3) ** 2 + 1.0 / step}})

if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    if sys.argv[1] == "restore":
        tuner = tune.Tuner.restore({folder!r} + "/results/run", trainable=train, resume_unfinished=True)
    else:
        tuner = tune.Tuner(
            train,
            param_space={{"x": tune.uniform(-1, 1)}},
            tune_config=tune.TuneConfig(
                metric="loss", mode="min", num_samples=10, max_concurrent_trials=2,
                search_alg=LuthierSearch(study_name="ray-restore", db={db!r}),
                scheduler=ASHAScheduler(max_t=4, grace_period=2),
            ),
            run_config=tune.RunConfig(name="run", storage_path={folder!r} + "/results", verbose=0),
        )
    results = tuner.fit()
    with open(os.path.join({folder!r}, "done"), "w") as file:
        json.dump([[r.config["x"], r.metrics["loss"]] for r in results], file)
"""


def test_domains_become_luthiers(coordinator_folder: Path) -> None:
    search = LuthierSearch("loss", "min", algorithm="random", db=str(coordinator_folder))
    assert search.set_search_properties(None, None, SPACE)
    for i in range(20):
        config = search.suggest(f"t{i}")
        assert config == search.suggest(f"t{i}")
        assert 1e-4 <= config["lr"] <= 1.0
        assert config["net"]["width"] % 8 == 0 and config["net"]["act"] in ("relu", "tanh", None)
        assert config["layers"] in (1, 2, 3)
        assert abs(config["drop"] * 10 - round(config["drop"] * 10)) < 1e-9
        search.on_trial_complete(f"t{i}", {"loss": config["lr"]})
    search.add_evaluated_point({**search.suggest("last"), "lr": 0.5}, 0.25)
    assert len(search.study.trials) == 22
    for domain in (tune.sample_from(lambda spec: 1), tune.randn()):
        with pytest.raises(ValueError, match="'odd'"):
            LuthierSearch("loss", "min").set_search_properties(None, None, {"odd": domain})
    with pytest.raises(ValueError, match="grid_search"):
        LuthierSearch("loss", "min").set_search_properties(None, None, {"odd": tune.grid_search([1, 2])})


def test_killed_half_way_and_restored(coordinator_folder: Path, tmp_path: Path) -> None:
    luthier.studies(
        db=str(coordinator_folder)
    )  # The coordinator is this process's, and outlives the one that is killed.
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(folder=str(tmp_path), db=str(coordinator_folder)))
    environment = {**os.environ, "TUNE_GLOBAL_CHECKPOINT_S": "0", "RAY_AIR_NEW_OUTPUT": "0"}
    command = [sys.executable, str(program)]
    with subprocess.Popen([*command, "fit"], env=environment, start_new_session=True) as first:
        starts = tmp_path / "starts"
        deadline = time.monotonic() + 180
        while not starts.exists() or len(starts.read_text().splitlines()) < 5:
            assert first.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(first.pid, signal.SIGKILL)
    subprocess.run([*command, "restore"], env=environment, check=True, timeout=240)
    done = json.loads((tmp_path / "done").read_text())
    assert len(done) == 10
    assert len({x for x, _ in done}) == 10  # None was asked twice.
    trials = luthier.load("ray-restore", db=str(coordinator_folder)).trials
    ended = [trial for trial in trials if trial.state.is_finished()]
    assert {trial.params["x"] for trial in ended} >= {x for x, _ in done}  # None was lost.
    assert all(trial.state.name in ("COMPLETE", "PRUNED") for trial in ended)


GUIDE = Path(__file__).resolve().parents[4] / "docs/guide/ray.md"
TRAIN = """
def train(config):
    import os, time
    with open(os.path.join({folder!r}, "starts"), "a") as file:
        file.write(ray.get_runtime_context().get_node_id() + " " + str(config["x"]) + "\\n")
    for step in range(1, 4):
        time.sleep(0.5)
        tune.report({{"loss": (config["x"] - 0.3) ** 2 + 1 / step, "cpus": ray.get_runtime_context().get_assigned_resources()["CPU"]}})
"""


def test_the_guides_program_asks_for_each_setting_once_though_a_node_dies(coordinator_folder: Path, tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    luthier.studies(db=str(coordinator_folder))  # The coordinator is this process's.
    program = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)[0]
    begin, end = program.index("def train"), program.index("ray.init")
    program = program[:begin] + TRAIN.format(folder=str(tmp_path)) + "\n" + program[end:]
    (tmp_path / "program.py").write_text(program + f"""
import json
with open({str(tmp_path)!r} + "/done", "w") as file:
    json.dump([[r.config["x"], r.metrics["loss"], r.metrics["cpus"]] for r in tuner.get_results()], file)
""")
    starts = tmp_path / "starts"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=2) for _ in range(2)]
        environment = {**os.environ, "RAY_ADDRESS": cluster.address, "HOME": str(tmp_path),
                       "LUTHIER_SERVER": f"unix:{coordinator_folder}/socket"}
        with subprocess.Popen([sys.executable, str(tmp_path / "program.py")], env=environment) as running:
            deadline = time.monotonic() + 240

            def on(node: Any) -> int:
                return starts.read_text().count(node.node_id) if starts.exists() else 0

            while on(nodes[0]) < 2:
                assert running.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
            cluster.remove_node(nodes[0], allow_graceful=False)
            assert running.wait(deadline - time.monotonic()) == 0
    finally:
        cluster.shutdown()
    done = json.loads((tmp_path / "done").read_text())
    trials = luthier.load("on-ray", db=str(coordinator_folder)).trials
    began = [line.split()[1] for line in starts.read_text().splitlines()]
    print(f"\nray tune: {len(trials)} settings of the coordinator, {len(done)} results, {len(began)} starts; a node of two died")
    assert len(began) > 24, "trials of the node that died began again"
    assert len(trials) == 24 and all(trial.state.name == "COMPLETE" for trial in trials)
    # Each is asked for once, though the algorithm may try its best one twice.
    asked = sorted(round(trial.params["x"], 9) for trial in trials)
    assert sorted(round(x, 9) for x, _, _ in done) == asked
    assert {round(float(x), 9) for x in began} == set(asked), "each began again with the setting that it had"
    assert [cpus for _, _, cpus in done] == [1.0] * 24, "what with_resources asks for"
