"""Ranges that depend on other parameters: b in [0, 1 - a].

The service has one range for each parameter. Where an objective asks for another one in a later trial, the search
chooses the share of the range instead, a parameter "b (share)" from 0 to 1; the trial keeps the value that it stands
for as an attribute, from which `params` have it under the name that the objective knows.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

from luthier import _wire
from luthier._fingerprint import objective_of
from luthier.space import Domain, Float, Int, Parameter

if TYPE_CHECKING:
    from luthier.trial import Trial

_log = logging.getLogger("luthier")
_VALUE = "luthier.value."  # What the attribute of a value begins with; the parameter's name follows.
_SHARE = " (share)"


def share_of(name: str) -> str:
    """Returns the name of the parameter that is the share of a range."""
    return name + _SHARE


def is_dynamic(trial: Trial, known: Parameter, spec: Any, name: str, domain: Domain) -> bool:
    """Whether a range that differs from the one that the study has is one that differs from trial to trial: that other
    trials of the same objective had the known one, or the share is a parameter already."""
    kind = spec.WhichOneof("kind")
    if not isinstance(domain, (Float, Int)) or kind != known.kind or known.spec.HasField("count"):
        return False
    ours, theirs = getattr(spec, kind), getattr(known.spec, kind)
    log = _wire.enum("Scale")["LOG"]
    if (ours.scale == log) != (theirs.scale == log):
        return False
    study = trial._study
    if share_of(name) in study._space.by_name:
        return True
    objective = objective_of(trial._worker)
    if not objective:
        return (trial._worker, spec.name) in study._asked
    states = ("RUNNING", "COMPLETE", "PRUNED")
    others = study._messages(states, filter=f'worker:".{objective}" AND number != {trial.number}', limit=1)
    return any(True for _ in others)


def value_of(share: float, domain: Union[Float, Int]) -> Any:
    """Returns the value that a share of a range stands for."""
    low, high = domain.low, domain.high
    if not low <= high:
        raise ValueError(f"the range from {low} to {high} is empty")
    if domain.log:
        value: float = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        return min(max(round(value) if isinstance(domain, Int) else value, low), high)
    step = domain.step or (1 if isinstance(domain, Int) else None)
    if step is None:
        return min(max(low + share * (high - low), low), high)
    count = math.floor((high - low) / step + 1e-9) + 1
    return low + min(int(share * count), count - 1) * step


def suggest(trial: Trial, name: str, domain: Union[Float, Int], known: Optional[Parameter]) -> Any:
    """Returns the value of a parameter whose range is another one in each trial, or is one value."""
    study = trial._study
    given = None if known is None else trial._fields.get(known.legal)
    if known is not None and given is not None and trial._lease.trial.provenance.origin == "enqueued":
        value = known.decode(given)
        if domain.low <= value <= domain.high:  # The user's own setting.
            trial._used.add(known.legal)
            return value
    if known is not None and name not in study._dynamic:
        study._dynamic.add(name)
        _log.info(
            "parameter %r of study %s has another range from trial to trial: the search chooses its share of the range, "
            "%r", name, study.name, share_of(name),
        )  # fmt: skip
    share = trial._suggest(share_of(name), Float(0.0, 1.0)) if domain.low < domain.high else 0.0
    value = value_of(share, domain)
    trial._shared[name] = value
    study.set_attributes(trial.number, {_VALUE + name: json.dumps(value)})
    return value


def with_values(params: dict[str, Any], attributes: Mapping[str, str]) -> dict[str, Any]:
    """Returns a trial's parameters with the values that its shares stand for."""
    shared = {key[len(_VALUE) :]: json.loads(text) for key, text in attributes.items() if key.startswith(_VALUE)}
    return merged(params, shared) if shared else params


def merged(params: dict[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """Returns parameters with values in place of their shares."""
    hidden = {share_of(name) for name in shared}
    return {**{name: value for name, value in params.items() if name not in hidden}, **shared}


def is_own(attribute: str) -> bool:
    """Whether an attribute is one of these values."""
    return attribute.startswith(_VALUE)
