"""LuthierSearchCV keeps scikit-learn's contract, and the coordinator learns what it is told."""

from __future__ import annotations

import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from sklearn.base import clone  # noqa: E402
from sklearn.datasets import load_breast_cancer, make_classification, make_regression  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402
from sklearn.utils import estimator_checks  # noqa: E402

import luthier  # noqa: E402
from luthier.integrations.sklearn import LuthierSearchCV  # noqa: E402


def passed(estimator: Any) -> set[str]:
    """Returns the names of scikit-learn's checks that `estimator` passes, with their arguments."""
    names = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for checked, check in estimator_checks.check_estimator(estimator, **_GENERATE):
            try:
                check(clone(checked))
            except BaseException as error:  # A check may raise anything, unittest's SkipTest too.
                print(f"{check}: {type(error).__name__}: {error}"[:300])
            else:
                names.add(str(getattr(check, "func", check)).split(" at ")[0] + str(getattr(check, "keywords", "")))
    return names


if hasattr(estimator_checks, "estimator_checks_generator"):

    def _passed_by_generator(estimator: Any) -> set[str]:
        """Does the same with the generator of scikit-learn 1.6 and newer."""
        names = set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for result in estimator_checks.check_estimator(estimator, on_skip=None, on_fail=None):
                if result["status"] == "passed":
                    names.add(result["check_name"])
                else:
                    print(result["check_name"], result["status"], repr(result["exception"])[:300])
        return names

    passed = _passed_by_generator
_GENERATE: dict[str, Any] = {"generate_only": True}


@pytest.mark.parametrize(
    ("estimator", "name", "values"),
    [(Ridge(), "alpha", [0.1, 1.0]), (LogisticRegression(), "C", [0.1, 1.0])],
    ids=["ridge", "logistic"],
)
def test_passes_the_checks_that_grid_search_passes(
    estimator: Any, name: str, values: list[float], coordinator_folder: Path
) -> None:
    expected = passed(GridSearchCV(estimator, {name: values}, cv=2))
    assert len(expected) > 20
    ours = LuthierSearchCV(estimator, {name: values}, 2, cv=2, db=str(coordinator_folder))
    missing = expected - passed(ours)
    assert not missing


def test_a_grid_gives_the_results_of_grid_search(coordinator_folder: Path) -> None:
    x, y = make_classification(120, random_state=3)
    space = {"max_depth": [1, 2, 3], "criterion": ["gini", "entropy"]}
    tree = DecisionTreeClassifier(random_state=1)
    grid = GridSearchCV(tree, space, cv=3, return_train_score=True).fit(x, y)
    ours = LuthierSearchCV(
        tree, space, 6, batch=4, algorithm="grid", cv=3, return_train_score=True, db=str(coordinator_folder)
    ).fit(x, y)
    assert set(ours.cv_results_) == set(grid.cv_results_)
    order = [ours.cv_results_["params"].index(params) for params in grid.cv_results_["params"]]
    for key, column in grid.cv_results_.items():
        if "time" in key or key == "params":
            continue
        assert list(np.asarray(ours.cv_results_[key])[order]) == list(column), key
    assert ours.best_score_ == grid.best_score_


def test_scores_and_standard_errors_reach_the_coordinator(coordinator_folder: Path) -> None:
    x, y = make_regression(60, 5, noise=5.0, random_state=2)
    search = LuthierSearchCV(
        Ridge(),
        {"alpha": luthier.Float(1e-4, 1e4, log=True)},
        6,
        batch=3,
        cv=4,
        random_state=5,
        db=str(coordinator_folder),
    ).fit(x, y)
    trials = search.trials_
    assert len(trials) == 6
    assert sorted(t.value for t in trials) == pytest.approx(sorted(search.cv_results_["mean_test_score"]))
    assert search.study_.best_value == pytest.approx(search.best_score_)
    again = clone(search).fit(x, y)
    assert again.best_params_ == search.best_params_  # random_state fixes the search.
    assert pickle.loads(pickle.dumps(search)).predict(x[:3]) == pytest.approx(search.predict(x[:3]))


def test_distributions_of_randomized_search(coordinator_folder: Path) -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    x, y = load_breast_cancer(return_X_y=True)
    search = LuthierSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression()),
        {"logisticregression__C": stats.loguniform(1e-3, 1e3), "logisticregression__max_iter": stats.randint(50, 200)},
        8,
        cv=3,
        random_state=0,
        db=str(coordinator_folder),
    ).fit(x, y)
    assert search.best_score_ > 0.96
    assert all(1e-3 <= c <= 1e3 for c in search.cv_results_["param_logisticregression__C"])
    assert all(50 <= n < 200 for n in search.cv_results_["param_logisticregression__max_iter"])


@pytest.mark.filterwarnings("ignore")
def test_failed_fits_are_failed_trials(coordinator_folder: Path) -> None:
    x, y = make_regression(40, 3, random_state=2)
    space = {"alpha": [-2.0, -1.0, 1.0, 2.0]}
    search = LuthierSearchCV(Ridge(), space, 4, algorithm="grid", cv=2, db=str(coordinator_folder)).fit(x, y)
    states = [t.state for t in search.trials_]
    assert [str(s).rsplit(".", 1)[-1] for s in states].count("FAILED") == 2
    assert len(search.cv_results_["params"]) == 2
    with pytest.raises(ValueError, match="alpha"):
        LuthierSearchCV(Ridge(), space, 4, algorithm="grid", cv=2, error_score="raise", db=str(coordinator_folder)).fit(
            x, y
        )
    with pytest.raises(ValueError, match="fits failed"):
        LuthierSearchCV(Ridge(), {"alpha": [-1.0, -2.0]}, 2, cv=2, db=str(coordinator_folder)).fit(x, y)


def test_several_scores_need_one_to_search_by(coordinator_folder: Path) -> None:
    x, y = make_classification(60, random_state=3)
    search = LuthierSearchCV(
        LogisticRegression(),
        {"C": [0.1, 1.0, 10.0]},
        3,
        scoring=["accuracy", "roc_auc"],
        refit="roc_auc",
        db=str(coordinator_folder),
    ).fit(x, y)
    assert search.study_.best_value == pytest.approx(search.best_score_)
    with pytest.raises(ValueError, match="refit"):
        LuthierSearchCV(
            LogisticRegression(),
            {"C": [0.1, 1.0]},
            2,
            scoring=["accuracy", "f1"],
            refit=False,
            db=str(coordinator_folder),
        ).fit(x, y)


def test_the_best_setting_is_the_best_within_constraints(coordinator_folder: Path) -> None:
    x, y = load_breast_cancer(return_X_y=True)
    search = LuthierSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
        {"logisticregression__C": luthier.Float(1e-4, 1e2, log=True)},
        n_iter=8,
        cv=3,
        algorithm="random",
        scoring=["accuracy", "precision", "recall"],
        refit="accuracy",
        constraints={"recall": {"at_most": 0.985}, "fit_time": {"at_most": 60.0}},
        random_state=1,
        db=str(coordinator_folder),
    ).fit(x, y)
    recall, accuracy = search.cv_results_["mean_test_recall"], search.cv_results_["mean_test_accuracy"]
    assert (recall > 0.985).any() and (recall <= 0.985).any(), "the bound divides the settings"
    assert search.best_score_ == accuracy[recall <= 0.985].max() == search.study_.best_value
    assert search.study_.constraints["recall"] == {"at_most": 0.985}
    with pytest.raises(ValueError, match="constraints has 'f1'; there are accuracy, fit_time, score_time"):
        LuthierSearchCV(
            LogisticRegression(), {"C": luthier.Float(0.1, 1)}, n_iter=1, algorithm="random", scoring=["accuracy"],
            refit="accuracy", constraints={"f1": {"at_least": 0}}, db=str(coordinator_folder),
        ).fit(x, y)  # fmt: skip


def test_tuples_mean_what_they_mean_in_a_study(tmp_path: Path) -> None:
    x, y = make_classification(60, 5, random_state=0)
    space = {"max_depth": (1, 30), "min_impurity_decrease": (1e-6, 1e-1, "log-uniform"), "criterion": ("gini", "entropy")}
    search = LuthierSearchCV(DecisionTreeClassifier(), space, 12, algorithm="random", cv=2, random_state=0, db=str(tmp_path))
    search.fit(x, y)
    tried = [trial.params for trial in search.trials_]
    assert len({params["max_depth"] for params in tried}) > 4 and len({p["min_impurity_decrease"] for p in tried}) == 12
    assert {params["criterion"] for params in tried} == {"gini", "entropy"}
    with pytest.raises(TypeError, match="choices are a list"):
        LuthierSearchCV(DecisionTreeClassifier(), {"max_depth": (1, 2, 3)}, db=str(tmp_path)).fit(x, y)


def test_a_study_that_gives_no_settings_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    X, y = make_classification(n_samples=40, random_state=0)

    def fit(n_iter: int) -> Any:
        space = {"fit_intercept": [True, False]}
        words = {"study_name": "ended", "db": str(tmp_path / "db")}
        return LuthierSearchCV(Ridge(), space, n_iter=n_iter, cv=2, **words).fit(X, y)

    search = fit(5)
    assert len(search.trials_) == 2 and "ended after 2 of 5 settings: every setting has been tried" in caplog.text
    with pytest.raises(luthier.StudyFinished, match="completed .every setting has been tried.*study_name="):
        fit(5)


def _several(folder: Path, **options: Any) -> Any:
    x, y = load_breast_cancer(return_X_y=True)
    words: dict[str, Any] = {"scoring": ["accuracy", "precision", "recall"], "refit": "precision", "algorithm": "random"}
    words.update(options)
    estimator = make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0))
    space = {"decisiontreeclassifier__max_depth": (1, 6), "decisiontreeclassifier__ccp_alpha": (1e-4, 0.3, "log-uniform")}
    return LuthierSearchCV(estimator, space, 12, cv=3, random_state=1, db=str(folder), **words).fit(x, y)


def _surpassed(rows: Any, within: Any) -> list[int]:
    """Returns the places of the rows within that none surpasses, of columns that are to be large."""
    there = [i for i, inside in enumerate(within) if inside]
    worse = {i for i in there for j in there if all(rows[j] >= rows[i]) and any(rows[j] > rows[i])}
    return [i for i in there if i not in worse]


def test_several_goals_have_a_front(coordinator_folder: Path) -> None:
    search = _several(
        coordinator_folder, goals={"precision": "maximize", "recall": "maximize"}, constraints={"fit_time": {"at_most": 60}}
    )
    results = search.cv_results_
    rows = np.stack([results["mean_test_precision"], results["mean_test_recall"]], axis=1)
    assert list(search.front_) == _surpassed(rows, [True] * 12)
    assert search.best_index_ in search.front_ and search.best_score_ == results["mean_test_precision"].max()
    assert search.study_.goals == {"precision": "maximize", "recall": "maximize"}
    assert sorted(t.values for t in search.study_.front) == sorted(rows[search.front_].tolist())
    trial = search.study_.trials[0]
    assert trial.metrics["accuracy"] == pytest.approx(results["mean_test_accuracy"][0])  # Further scores are kept.
    assert trial.standard_errors["recall"] == pytest.approx(results["std_test_recall"][0] / 3**0.5)
    assert list(pickle.loads(pickle.dumps(search)).front_) == list(search.front_)
    assert clone(search).goals == {"precision": "maximize", "recall": "maximize"}


def test_goals_bounds_and_no_refit(coordinator_folder: Path) -> None:
    goals = {"accuracy": "maximize", "score_time": "minimize"}
    search = _several(coordinator_folder, goals=goals, constraints={"recall": {"at_least": 0.95}}, refit=False)
    assert not hasattr(search, "best_index_")
    results = search.cv_results_
    rows = np.stack([results["mean_test_accuracy"], -results["mean_score_time"]], axis=1)
    assert list(search.front_) == _surpassed(rows, results["mean_test_recall"] >= 0.95)
    one = _several(coordinator_folder, goals={"score": "maximize", "fit_time": "minimize"}, scoring="accuracy", refit=True)
    assert one.best_index_ in one.front_ and one.best_score_ == one.cv_results_["mean_test_score"].max()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goals": {"f1": "maximize"}}, "goals has 'f1'; there are accuracy, precision, recall, fit_time, score_time"),
        ({"goals": {"recall": "up"}}, "not 'minimize' or 'maximize'"),
        ({"goals": {}}, "goals is empty"),
        ({"goals": {"recall": "maximize"}, "refit": "f1"}, "refit"),
        ({"goals": {"recall": "maximize", "accuracy": "maximize"}, "algorithm": "cma_es"}, "cma_es does not take several"),
        ({"goals": ["recall"]}, "goals"),
        ({"refit": False}, "refit must name the one to search by, or goals those"),
        (
            {"scoring": {"my score": "accuracy"}, "refit": "my score", "goals": {"my score": "maximize"}},
            "metric.*my score.* is not a name",
        ),
    ],
)
def test_wrong_goals_are_said_by_name(coordinator_folder: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError, luthier.LuthierError), match=message):
        _several(coordinator_folder, **options)


def test_a_score_that_is_no_number_fails_its_trial(coordinator_folder: Path) -> None:
    def scores(estimator: Any, x: Any, y: Any) -> dict[str, float]:
        deep = estimator[-1].get_depth() > 2
        return {"a": estimator.score(x, y), "b": np.nan if deep else 1.0, "odd name": 1.0, "c": np.nan}

    with pytest.warns(UserWarning, match="non-finite"):
        search = _several(coordinator_folder, scoring=scores, refit="a", goals={"a": "maximize", "b": "minimize"})
    states = [trial.state.name for trial in search.trials_]
    assert states == ["FAILED" if math.isnan(b) else "COMPLETE" for b in search.cv_results_["mean_test_b"]]
    assert {"FAILED", "COMPLETE"} == set(states)
    assert all(not math.isnan(search.cv_results_["mean_test_b"][i]) for i in search.front_)


def test_settings_keep_constraints_on_parameters(coordinator_folder: Path) -> None:
    x, y = make_classification(80, random_state=0)
    search = LuthierSearchCV(
        DecisionTreeClassifier(random_state=0),
        {"max_depth": (1, 20), "min_samples_leaf": (1, 20), "criterion": ["gini", "entropy"]},
        n_iter=12, algorithm="random", random_state=0, db=str(coordinator_folder),
        parameter_constraints=[
            {"sum": {"max_depth": 1, "min_samples_leaf": 1}, "at_most": 12},
            {"forbid": {"criterion": "gini", "max_depth": {"at_least": 4}}},
        ],
    ).fit(x, y)
    settings = search.cv_results_["params"]
    assert len(settings) == 12
    for setting in settings:
        assert setting["max_depth"] + setting["min_samples_leaf"] <= 12
        assert setting["criterion"] == "entropy" or setting["max_depth"] < 4
    assert {setting["criterion"] for setting in settings} == {"gini", "entropy"}


def _nodes(estimator: Any, x: Any, y: Any) -> float:
    return float(estimator.tree_.node_count)


def _with_size(folder: Path, **options: Any) -> Any:
    x, y = load_breast_cancer(return_X_y=True)
    words: dict[str, Any] = {"scoring": {"acc": "accuracy", "recall": "recall", "size": _nodes}, **options}
    return LuthierSearchCV(
        DecisionTreeClassifier(random_state=0), {"max_depth": (1, 8), "min_samples_leaf": (1, 20)}, n_iter=12, cv=3,
        algorithm="random", random_state=0, db=str(folder), **words,
    ).fit(x[:250], y[:250])  # fmt: skip


@pytest.mark.parametrize("refit", ["acc", "size", "recall"])
def test_the_best_setting_is_the_best_on_the_front_in_its_own_direction(coordinator_folder: Path, refit: str) -> None:
    goals = {"acc": "maximize", "size": {"goal": "minimize"}}
    search = _with_size(coordinator_folder, goals=goals, refit=refit)
    results = search.cv_results_
    rows = np.stack([results["mean_test_acc"], -results["mean_test_size"]], axis=1)
    front = _surpassed(rows, [True] * 12)
    assert list(search.front_) == front
    means = results[f"mean_test_{refit}"]
    best = min(means[front]) if refit == "size" else max(means[front])
    assert search.best_index_ in front and search.best_score_ == best
    for score, sign in (("acc", -1), ("recall", -1), ("size", 1)):
        losses = sign * results[f"mean_test_{score}"]
        assert [1 + sum(losses < loss) for loss in losses] == list(results[f"rank_test_{score}"])


def test_one_score_to_minimize(coordinator_folder: Path) -> None:
    search = _with_size(coordinator_folder, goals={"size": "minimize"}, refit="size", constraints={"acc": {"at_least": 2}})
    means = search.cv_results_["mean_test_size"]
    assert search.best_score_ == min(means)  # Nothing is within the constraints.
    assert len(search.front_) == 0


@pytest.mark.parametrize("forbidden", [None, [None, "log2"], "sqrt", 1, [(2, 3)]])
def test_choices_are_forbidden_as_they_are(coordinator_folder: Path, forbidden: Any) -> None:
    choices = ["sqrt", "log2", None, 1, "1", True, (2, 3)]
    x, y = make_classification(60, random_state=0)
    search = LuthierSearchCV(
        Ridge(), {"alpha": (0.1, 1.0), "copy_X": choices}, n_iter=20, cv=2, algorithm="random", random_state=0,
        db=str(coordinator_folder), parameter_constraints=[{"forbid": {"copy_X": forbidden}}], error_score=0.0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            search.fit(x, y)
        except ValueError as error:
            assert "fits failed" in str(error)
    wrong = forbidden if isinstance(forbidden, list) else [forbidden]
    labels = dict(zip(luthier.space.labels_of(choices), choices))
    tried = {repr(labels[t.params["copy_X"]]) for t in search.trials_}
    assert tried == {repr(choice) for choice in choices} - {repr(choice) for choice in wrong}


def test_choices_that_are_none_are_not_forbidden(coordinator_folder: Path) -> None:
    search = LuthierSearchCV(
        Ridge(), {"solver": ["svd", None]}, parameter_constraints=[{"forbid": {"solver": "lsqr"}}], db=str(coordinator_folder)
    )
    with pytest.raises(ValueError, match=r"parameter_constraints\[0\].forbid: 'lsqr' is no choice of 'solver'; it has 'svd', None"):
        search.fit(*make_regression(20, 2))
