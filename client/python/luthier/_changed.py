"""What happens where an objective was edited since a study's last trials."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Optional

from luthier import _wire
from luthier._fingerprint import objective_of
from luthier._stored import OBJECTIVES
from luthier.errors import NotFound, ObjectiveChanged

if TYPE_CHECKING:
    from luthier.study import Study

_log = logging.getLogger("luthier")
_MANY = 8  # Ranges of trials that a message names,
_LONGEST = 60  # and characters of a name that a number goes behind.


def look_at(study: Study, objective: str, if_changed: Optional[str]) -> None:
    """Compares the objective with those of the study's trials, and does what is wanted where there are others. Without
    a wish only the newest trial is looked at. Raises ObjectiveChanged."""
    if if_changed == "continue":
        if OBJECTIVES in study._spec.labels:
            study._set_label(OBJECTIVES, "")
        return
    if if_changed is None and _newest(study) in ("", objective):
        return
    others = _others(study, study._path, objective)
    if not others:
        return
    said = f"the objective is another one than that of {_trials(others)} of study {study.name}"
    if if_changed == "raise":
        raise ObjectiveChanged(
            f'{said}; if_changed="fresh" goes on in a study of its own, "continue" lets those trials count'
        )
    if if_changed == "fresh":
        _go_on_elsewhere(study, objective)
        _log.warning("%s: study %s goes on with it", said, study.name)
        return
    study._set_label(OBJECTIVES, objective)
    _log.warning(
        "%s: the search still learns from them, but best_trial, best_value and best_params leave them out; "
        'optimize(if_changed="continue") lets them count, "fresh" goes on in a study of its own, "raise" refuses',
        said,
    )


def _newest(study: Study) -> str:
    """Returns the fingerprint of the newest trial that has one; empty where none has."""
    for trial in study._messages(filter='worker:"."', order_by="number desc", limit=8):
        found = _objective(trial)
        if found:
            return found
    return ""


def _others(study: Study, path: str, objective: str) -> list[int]:
    """Returns the numbers of a study's trials that were of other objectives."""
    request = _wire.message("ListTrialsRequest")(
        parent=path, filter=f'worker:"." AND NOT worker:".{objective}"', page_size=1000
    )
    out: list[int] = []
    while True:
        page = study._call("ListTrials", request, seconds=60.0)
        out += [int(trial.number) for trial in page.trials if _objective(trial)]
        if not page.next_page_token:
            return out
        request.page_token = page.next_page_token


def _objective(trial: Any) -> str:
    return objective_of(trial.attempts[-1].worker) if trial.attempts else ""


def _trials(numbers: list[int]) -> str:
    """Returns numbers as a person writes them: trials 1 to 15 and 17."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [str(low) if low == high else f"{low} to {high}" for low, high in ranges[:_MANY]]
    more = [f"{len(ranges) - _MANY} ranges more"] if len(ranges) > _MANY else []
    *most, last = texts + more
    return ("trial " if len(numbers) == 1 else "trials ") + (f"{', '.join(most)} and {last}" if most else last)


def _go_on_elsewhere(study: Study, objective: str) -> None:
    """Makes the study object that of NAME-2, NAME-3 and so on: the first that has no trial of other objectives, or that
    is made now."""
    parent, _, name = study._path.rpartition("/studies/")
    for i in range(2, 10_000):
        path = f"{parent}/studies/{name[:_LONGEST]}-{i}"
        try:
            message = study._call("GetStudy", _wire.message("GetStudyRequest")(name=path))
        except NotFound:
            request = _wire.message("CreateStudyRequest")(study_id=path.rpartition("/")[2], parent=parent)
            request.spec.CopyFrom(study._message.spec)
            request.spec.labels.pop(OBJECTIVES, None)
            if request.spec.open_space:
                del request.spec.space[:]
            message = study._call("CreateStudy", request)
        else:
            ended = _wire.enum_names("Study.State")[message.state] in ("STOPPED", "CANCELLED")
            if ended or _others(study, path, objective):
                continue
        with study._lock:
            study._take(message)
        return
