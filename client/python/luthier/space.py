"""Search spaces: what a parameter may be, and its values on the way to the service and back."""

from __future__ import annotations

import hashlib
import json
import math
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from luthier import _wire
from luthier._arguments import flag, mapping, number, scalar, sequence, text, whole
from luthier._optuna_refused import refuse

LEGAL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}\Z")
_LABEL_BYTES = 200


class Domain:
    """What a parameter may be. `when` makes one that exists only where another parameter has certain values."""

    def __init__(self, default: Any = None) -> None:
        self.default = default
        self.condition: Optional[tuple[str, tuple[Any, ...]]] = None

    def when(self, parent: str, *values: Any) -> Domain:
        """Returns this domain for a parameter that exists only where `parent` has one of `values`."""
        if not values:
            raise ValueError("when() needs the values of the parent for which the parameter exists")
        self.condition = (parent, values)
        return self

    def single(self) -> bool:
        """Whether there is one value alone, in Optuna's word."""
        choices, step = getattr(self, "choices", None), getattr(self, "step", None) or 0
        if choices is not None:
            return len(choices) == 1
        low, high = getattr(self, "low", 0), getattr(self, "high", 1)
        return bool(high - low < step or low == high)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_"):
                refuse("Distribution", name)
            raise AttributeError(f"luthier.{type(self).__name__} has no {name!r}")

    def _fill(self, spec: Any) -> None:
        raise NotImplementedError

    def _is(self) -> tuple[Any, ...]:
        """Returns what the domain is, by which it is compared: 1, 1.0 and True are three labels."""
        step = {"step": getattr(self, "step", None) or 1} if isinstance(self, Int) else {}
        return type(self), repr(sorted({**vars(self), **step}.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and self._is() == other._is()

    def __hash__(self) -> int:
        return hash(self._is())

    def __repr__(self) -> str:
        known = {name: x for name, x in vars(self).items() if name in ("low", "high") or x not in (None, False)}
        return f"luthier.{type(self).__name__}({', '.join(f'{name}={x!r}' for name, x in known.items())})"


class Float(Domain):
    """A number from `low` to `high`, both included. `log` or `logit` spread it; `step` allows low + i*step only;
    `count` makes a vector of so many."""

    def __init__(
        self,
        low: float,
        high: float,
        *,
        log: bool = False,
        logit: bool = False,
        step: Optional[float] = None,
        count: Optional[int] = None,
        default: Any = None,
    ) -> None:
        super().__init__(default)
        self.low: float = number("Float's low", low)
        self.high: float = number("Float's high", high)
        self.log: bool = flag("log", log)
        self.logit: bool = flag("logit", logit)
        self.step: Optional[float] = None if step is None else number("step", step)
        self.count: Optional[int] = None if count is None else whole("count", count)
        if self.log and self.logit:
            raise ValueError("give log or logit, not both")
        if self.count is not None and not 0 < self.count < 2**31:
            raise ValueError(f"count is {count}: a vector has at least one entry, and not so many")

    def _fill(self, spec: Any) -> None:
        out = getattr(spec, "float")
        out.min, out.max = self.low, self.high
        if self.log or self.logit:
            out.scale = _wire.enum("Scale")["LOG" if self.log else "LOGIT"]
        if self.step is not None:
            out.step = self.step
        if self.count is not None:
            spec.count = self.count


class Int(Domain):
    """A whole number from `low` to `high`, both included."""

    def __init__(
        self, low: int, high: int, *, log: bool = False, step: Optional[int] = None, default: Any = None
    ) -> None:
        super().__init__(default)
        ends = number("Int's low", low), number("Int's high", high)
        if not all(end.is_integer() for end in ends):
            raise ValueError(f"Int({low}, {high}): both ends are whole numbers; use Float for others")
        self.low: int = whole("Int's low", int(low))
        self.high: int = whole("Int's high", int(high))
        self.log: bool = flag("log", log)
        self.step: Optional[int] = None if step is None else whole("step", step)

    def _fill(self, spec: Any) -> None:
        out = getattr(spec, "int")
        out.min, out.max = self.low, self.high
        if self.log:
            out.scale = _wire.enum("Scale")["LOG"]
        if self.step is not None and self.step != 1:
            out.step = self.step


class Categorical(Domain):
    """One of several labels without order: texts, numbers, True, False or None, which come back as what they are."""

    def __init__(self, choices: Sequence[Any], *, default: Any = None) -> None:
        super().__init__(default)
        if isinstance(choices, (str, bytes)) or not isinstance(choices, Iterable):
            raise TypeError(f"the labels are {choices!r}: they are a list of texts, numbers, True, False or None")
        self.choices: list[Any] = list(choices)
        self._labels()

    def _labels(self) -> list[str]:
        labels = [encode_label(choice) for choice in self.choices]
        if len(set(labels)) != len(labels):
            raise ValueError(f"the labels {self.choices} are not all different")
        return labels

    def _fill(self, spec: Any) -> None:
        spec.categorical.values.extend(self._labels())


class Ordinal(Categorical):
    """One of several labels in a meaningful order."""

    def _fill(self, spec: Any) -> None:
        spec.ordinal.values.extend(self._labels())


class Bool(Domain):
    """True or False."""

    def _fill(self, spec: Any) -> None:
        spec.bool.SetInParent()


def encode_label(value: Any) -> str:
    """Returns a label as the service's text, from which `decode_label` tells type and value: 1, 0.5, true, null as in
    JSON, texts as they are, those that read as JSON in quotes. TypeError for other types."""
    if isinstance(value, str):
        return json.dumps(value) if decode_label(value) != value else value
    item = getattr(value, "item", None)
    if item is not None and not isinstance(value, (int, float, bool)):
        value = item()  # A scalar of numpy.
    if value is None or isinstance(value, (bool, int)):
        return json.dumps(value)
    if isinstance(value, float):
        return json.dumps(value)
    raise TypeError(
        f"{value!r} can't be a label: texts, numbers, True, False and None can; give others a text to stand for them"
    )


def decode_label(label: str) -> Any:
    """Returns what `encode_label` was given."""
    if not label or label[0] not in '-0123456789tfnNI"':
        return label
    try:
        value = json.loads(label)
    except ValueError:
        return label
    if isinstance(value, str):
        return value if json.dumps(value) == label else label
    if isinstance(value, (bool, int, float)) or value is None:
        return value if json.dumps(value) == label else label
    return label


def labels_of(choices: Sequence[Any]) -> list[str]:
    """Returns a different, legal label for each of `choices`, in order: its text where that will do."""
    texts = [str(choice) for choice in choices]
    if len(set(texts)) == len(texts) and all(t.isprintable() and 0 < len(t.encode()) <= _LABEL_BYTES for t in texts):
        return texts
    return [f"{i}:{''.join(c for c in t if c.isprintable())[:40]}" for i, t in enumerate(texts)]


def place_of(value: Any, choices: Sequence[Any]) -> Optional[int]:
    """Returns the place of a value among choices, None where it is none of them: that of its own type goes first, as 1,
    1.0 and True are three, then a number that is equal."""
    same = [i for i, choice in enumerate(choices) if choice is value or (type(choice) is type(value) and _equal(choice, value))]
    return next(iter([*same, *(i for i, choice in enumerate(choices) if _equal(choice, value))]), None)


def _equal(a: Any, b: Any) -> bool:
    try:
        return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)
    except Exception:  # Arrays, and values of a user's class, may raise anything.
        return False


def legal_name(name: str) -> str:
    """Returns `name` where the service takes it, else a name made from it and its hash."""
    if not text("a parameter's name", name):
        raise ValueError("a parameter's name is empty")
    if LEGAL_NAME.match(name) and not name.startswith("luthier."):
        return name
    return _made_name(name)


def _made_name(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)[:48]
    return f"p_{plain}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def to_domain(given: Any) -> Domain:
    """Returns the domain that a user's shorthand stands for: (low, high), (low, high, "log-uniform"), a list of labels,
    a frozen distribution of scipy (uniform, loguniform, randint), or one of Optuna or scikit-optimize. TypeError for
    others."""
    if isinstance(given, Domain):
        return given
    if isinstance(given, tuple):
        return _of_tuple(given)
    if isinstance(given, list):
        return Bool() if given in ([True, False], [False, True]) else Categorical(given)
    kind = type(given).__name__
    if kind == "FloatDistribution":
        return Float(given.low, given.high, log=given.log, step=given.step)
    if kind == "IntDistribution":
        return Int(given.low, given.high, log=given.log, step=None if given.log else given.step)
    if kind == "CategoricalDistribution":
        return Categorical(list(given.choices))
    if kind in ("Real", "Integer") and hasattr(given, "prior"):
        return _of_tuple((given.low, given.high, given.prior))
    if kind == "Categorical" and hasattr(given, "categories"):
        return Categorical(list(given.categories))
    frozen = getattr(getattr(given, "dist", None), "name", "")
    if frozen in ("uniform", "loguniform", "reciprocal", "randint"):
        low, high = given.support()
        if frozen == "randint":
            return Int(int(low), int(high))
        return Float(float(low), float(high), log=frozen != "uniform")
    raise TypeError(
        f"{given!r} is no domain: use luthier.Float, Int, Categorical, Ordinal or Bool, (low, high), a list of labels, "
        "or a uniform, loguniform or randint of scipy.stats"
    )


def _of_tuple(given: tuple[Any, ...]) -> Domain:
    """Returns the range that a tuple stands for. Choices are a list; a tuple of several other things is taken as one."""
    if len(given) == 3 and given[2] in ("uniform", "log-uniform") and all(_is_number(x) for x in given[:2]):
        kind = Int if all(isinstance(x, numbers.Integral) for x in given[:2]) else Float
        return kind(given[0], given[1], log=given[2] == "log-uniform")
    if len(given) == 2 and all(_is_number(x) for x in given):
        return (Int if all(isinstance(x, numbers.Integral) for x in given) else Float)(given[0], given[1])
    if any(_is_number(x) for x in given):
        raise TypeError(
            f"{given!r} is no range: (low, high) or (low, high, 'log-uniform') is one; choices are a list, {list(given)!r}"
        )
    return to_domain(list(given))


def _is_number(x: Any) -> bool:
    return isinstance(x, numbers.Real) and not isinstance(x, bool)


def to_spec(name: str, given: Any) -> Any:
    """Returns the ParameterSpec of a parameter."""
    domain = to_domain(given)
    legal = legal_name(name)
    spec = _wire.message("ParameterSpec")(name=legal)
    if legal != name:
        spec.display_name = name
    domain._fill(spec)
    decoder = Parameter(spec)
    if domain.default is not None:
        _set_value(spec.default_value, decoder.encode(domain.default))
    if domain.condition is not None:
        parent, values = domain.condition
        spec.condition.parent = legal_name(parent)
        for value in values:
            numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
            _set_value(
                spec.condition.values.add(), value if numeric or isinstance(value, bool) else encode_label(value)
            )
    return spec


def to_specs(space: Mapping[str, Any]) -> list[Any]:
    """Returns the ParameterSpecs of a space. Values in conditions are of the parent's kind."""
    given_space = mapping("space", space, '{"lr": luthier.Float(1e-5, 1e-1, log=True)}')
    domains = {name: to_domain(given) for name, given in given_space.items()}
    specs = {name: to_spec(name, domain) for name, domain in domains.items()}
    for name, domain in domains.items():
        if domain.condition is None:
            continue
        parent, values = domain.condition
        if parent not in specs:
            raise ValueError(f"{name!r} exists when {parent!r} has a value, but there is no {parent!r}")
        decoder = Parameter(specs[parent])
        del specs[name].condition.values[:]
        for value in values:
            _set_value(specs[name].condition.values.add(), decoder.encode(value))
    return list(specs.values())


def _set_value(out: Any, value: Any) -> None:
    if isinstance(value, bool):
        out.bool_value = value
    elif isinstance(value, (int, float)):
        out.number_value = value
    elif isinstance(value, str):
        out.string_value = value
    else:
        for entry in value:
            out.list_value.values.add().number_value = entry


class Parameter:
    """A parameter of a study: its values on the way to the service and back."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        self.legal: str = spec.name
        self.name: str = spec.display_name or spec.name
        self.kind: str = spec.WhichOneof("kind") or ""

    def encode(self, value: Any) -> Any:
        """Returns a user's value as the service's."""
        if self.kind in ("categorical", "ordinal"):
            return encode_label(value)
        if self.kind == "bool":
            return self._switch(value)
        if self.spec.HasField("count") and not _is_number(value):
            return [number(f"{self.name}[{i}]", x) for i, x in enumerate(sequence(self.name, value))]
        out = number(self.name, value)
        if math.isinf(out):
            raise ValueError(f"{self.name} is {value!r}: a parameter has finite values")
        return out

    def _switch(self, value: Any) -> bool:
        """Returns True or False, of 1 and 0 too. TypeError for others: "false" as a text would be true."""
        plain = scalar(value)
        if isinstance(plain, (bool, int, float)) and plain in (0, 1):
            return bool(plain)
        raise TypeError(f"{self.name} is {value!r}: it is True or False")

    def encode_forbidden(self, given: Any) -> Any:
        """Returns what a setting must not have as the service takes it: of labels a value or a list of them, each by its
        type, as in `when`; all else as it is. ValueError for what is no label."""
        labels = self.labels()
        if labels is None or isinstance(given, Mapping):
            return given
        if isinstance(given, (list, tuple)) or getattr(given, "ndim", 0) > 0:
            return [self._label(value, labels) for value in given]
        return self._label(given, labels)

    def _label(self, value: Any, labels: Sequence[Any]) -> str:
        label = encode_label(value)
        if label not in map(encode_label, labels):
            raise ValueError(f"{value!r} is no label of {self.name!r}; it has {', '.join(map(repr, labels))}")
        return label

    def decode(self, value: Any) -> Any:
        """Returns a google.protobuf.Value as the user's value."""
        which = value.WhichOneof("kind")
        if which == "list_value":
            return [item.number_value for item in value.list_value.values]
        if self.kind == "int":
            return int(value.number_value)
        if which == "number_value":
            return value.number_value
        if which == "bool_value":
            return value.bool_value
        return decode_label(value.string_value)

    def labels(self) -> Optional[list[Any]]:
        """Returns the labels of a categorical or ordinal parameter, else None."""
        if self.kind in ("categorical", "ordinal"):
            return [decode_label(label) for label in getattr(self.spec, self.kind).values]
        return None

    def domain(self) -> Domain:
        """Returns what the parameter may be, without its condition and default."""
        d = getattr(self.spec, self.kind)
        if self.kind == "bool":
            return Bool()
        if self.kind in ("categorical", "ordinal"):
            return (Categorical if self.kind == "categorical" else Ordinal)(self.labels() or [])
        log, logit = (d.scale == _wire.enum("Scale")[name] for name in ("LOG", "LOGIT"))
        step = d.step if d.HasField("step") else None
        if self.kind == "int":
            return Int(d.min, d.max, log=log, step=step)
        count = self.spec.count if self.spec.HasField("count") else None
        return Float(d.min, d.max, log=log, logit=logit, step=step, count=count)

    def same_domain(self, other: Any) -> bool:
        """Whether a ParameterSpec has this one's kind and range."""
        return _range(self.spec) == _range(other)

    def accepts(self, other: Any) -> bool:
        """Whether a value of this parameter is one of ParameterSpec `other`: the same domain, or the same labels."""
        if self.kind == "bool" and other.WhichOneof("kind") == "categorical":
            return sorted(other.categorical.values) == ["false", "true"]
        if self.kind in ("categorical", "ordinal") and other.WhichOneof("kind") == "categorical":
            return set(other.categorical.values) == set(getattr(self.spec, self.kind).values)
        return self.same_domain(other)


def _range(spec: Any) -> tuple[Any, ...]:
    """What tells two domains apart, with the defaults that the service writes out."""
    kind = spec.WhichOneof("kind")
    domain = getattr(spec, kind)
    if kind in ("categorical", "ordinal"):
        return kind, list(domain.values)
    if kind == "bool":
        return (kind,)
    step = domain.step if domain.HasField("step") else (1 if kind == "int" else None)
    return kind, domain.min, domain.max, domain.scale or _wire.enum("Scale")["LINEAR"], step, spec.count


class Space:
    """The parameters of a study, by the names that users know. `metrics` are names that the service takes for no
    parameter."""

    def __init__(self, specs: Any, metrics: Iterable[str] = ()) -> None:
        self._metrics: frozenset[str] = frozenset(metrics)
        self.parameters: list[Parameter] = [Parameter(spec) for spec in specs]
        self.by_name: dict[str, Parameter] = {p.name: p for p in self.parameters}
        self.by_legal: dict[str, Parameter] = {p.legal: p for p in self.parameters}

    def spec_of(self, name: str, given: Any) -> Any:
        """Returns the ParameterSpec of a parameter that the space has, or may get."""
        spec = to_spec(name, given)
        if spec.name in self._metrics:
            spec.name, spec.display_name = _made_name(name), name
        return spec

    def with_parameters(self, specs: Any) -> Space:
        """Returns a space of the same study with these parameters."""
        return Space(specs, self._metrics)

    @property
    def differentiable(self) -> list[Parameter]:
        """The parameters that a gradient is of: floats without step."""
        return [p for p in self.parameters if p.kind == "float" and not p.spec.float.HasField("step")]

    def coordinates(self) -> list[str]:
        """Returns the names of a gradient's entries in order: "x", and "v[0]", "v[1]", ... of a vector."""
        names: list[str] = []
        for p in self.differentiable:
            names += [f"{p.name}[{i}]" for i in range(p.spec.count)] if p.spec.HasField("count") else [p.name]
        return names

    def decode(self, parameters: Any) -> dict[str, Any]:
        """Returns the values of a Struct in order of the space; those that it does not know as they are."""
        fields = parameters.fields
        out = {p.name: p.decode(fields[p.legal]) for p in self.parameters if p.legal in fields}
        for legal in fields:
            if legal not in self.by_legal:
                value = fields[legal]
                out[legal] = getattr(value, value.WhichOneof("kind"))
        return out

    def encode(self, values: Mapping[str, Any], out: Any) -> None:
        """Puts a user's values into a Struct. Names that the space lacks go as they are: the service says so."""
        for name, value in mapping("a setting", values, '{"lr": 0.01}').items():
            p = self.by_name.get(name)
            if p is not None:
                _set_value(out.fields[p.legal], p.encode(value))
            else:
                value = scalar(value)
                number = isinstance(value, (bool, int, float))
                legal = _made_name(name) if name in self._metrics else legal_name(name)
                _set_value(out.fields[legal], value if number else encode_label(value))


SpaceLike = Union[Mapping[str, Any], None]
