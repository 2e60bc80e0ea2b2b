"""Ranges that depend on other parameters: b in [0, 1 - a].

The service has one range for each parameter. Where an objective asks for another one in a later trial, the search
chooses the share of the range instead, a parameter "b (share)" from 0 to 1; the trial keeps the value that it stands
for as an attribute, from which `params` have it under the name that the objective knows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Union

from luthier import _wire
from luthier._fingerprint import objective_of
from luthier.space import Domain, Float, Int, Parameter

_VALUE = "luthier.value."  # Prefix of the attribute that holds a value; the parameter's name follows.
_SHARE = " (share)"
STATES = ("RUNNING", "COMPLETE", "PRUNED")  # States of trials whose ranges tell what an objective asks for.


def share_of(name: str) -> str:
    """Returns the name of the parameter that is the share of a range."""
    return name + _SHARE


def may_be_share(known: Parameter, spec: Any, domain: Domain) -> bool:
    """Whether two ranges of a parameter, the one that is known and that of `spec`, may differ from trial to trial."""
    kind = spec.WhichOneof("kind")
    if not isinstance(domain, (Float, Int)) or kind != known.kind or known.spec.HasField("count"):
        return False
    ours, theirs = getattr(spec, kind), getattr(known.spec, kind)
    log = _wire.enum("Scale")["LOG"]
    return bool((ours.scale == log) == (theirs.scale == log))


def others_of(worker: str, number: int) -> str:
    """Returns the filter of the other trials of a worker's objective; empty where its name tells of none."""
    objective = objective_of(worker)
    return f'worker:".{objective}" AND number != {number}' if objective else ""


def as_attributes(name: str, value: Any) -> dict[str, str]:
    """Returns the attribute that keeps the value of a share."""
    return {_VALUE + name: json.dumps(value)}


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
