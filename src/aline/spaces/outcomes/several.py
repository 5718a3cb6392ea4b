"""Several named outcomes of one trial, which may depend on each other: a choice and its time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from aline.errors import InputError, InternalError
from aline.spaces.outcomes.base import Belief, Outcome, User, outcome_from_json
from aline.spaces.outcomes.numbers import short

COMBINATIONS = 16  # of finite outcomes for which the others are believed one by one
DRAWS = 256  # that stand for expectations


@dataclass(frozen=True)
class Joint(Belief):
    """The probability of each combination of the finite parts, and the other parts given each.

    Where there are too many combinations there is only one, and all parts are independent.
    """

    outcome: Outcomes
    log_weight: Tensor  # [..., combination]
    rest: Mapping[str, Belief]  # name -> [..., combination]

    @property
    def shape(self) -> torch.Size:
        """The target axes."""
        return self.log_weight.shape[:-1]

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density or probability of values [..., part]."""
        shape = torch.broadcast_shapes(self.shape, value.shape[:-1])
        index = self.outcome.combination(value).expand(shape)
        total = self._given(index, self.log_weight)
        for name, belief in self._rest_given(index).items():
            total = total + belief.log_prob(value[..., self.outcome.column(name)])
        return total

    def _rest_given(self, index: Tensor) -> dict[str, Belief]:
        """The other parts [...] where the combinations are these [...]."""
        given = partial(self._given, index)
        return {name: belief.each(given) for name, belief in self.rest.items()}

    def _given(self, index: Tensor, tensor: Tensor) -> Tensor:
        """Of a tensor [*target, combination, ...] the combinations [*more, *target]."""
        shape, own = index.shape, tensor.shape[len(self.shape) :]
        at = index.reshape(*shape, *[1] * len(own)).expand(*shape, 1, *own[1:])
        return tensor.expand(*shape, *own).gather(len(shape), at).squeeze(len(shape))

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [count, ..., part]."""
        weight = self.log_weight.exp().reshape(-1, self.log_weight.shape[-1])
        pick = torch.multinomial(weight, count, replacement=True, generator=generator)
        index = pick.T.reshape(count, *self.shape)
        rest = self._rest_given(index)
        return self._joined(
            index, {n: belief.sample(1, generator)[0] for n, belief in rest.items()}
        )

    def _joined(self, index: Tensor, rest: Mapping[str, Tensor]) -> Tensor:
        """Values [..., part] from combinations [...] and the other parts [...]."""
        tied = self.outcome.combinations[index].to(self.log_weight.dtype)
        columns = {**dict(zip(self.outcome.tied, tied.unbind(-1), strict=True)), **rest}
        return torch.stack([columns[name] for name in self.outcome.parts], -1)

    def outcomes(self) -> tuple[Tensor, Tensor]:
        """Every combination where that is all, else draws that never change."""
        if not self.rest:
            values = self.outcome.combinations.to(self.log_weight.dtype)
            return values.expand(*self.shape, *values.shape), self.log_weight.exp()
        values = self.sample(DRAWS, torch.Generator()).movedim(0, -2)
        return values, values.new_full(values.shape[:-1], 1 / DRAWS)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Each part has its own."""
        raise InputError("several outcomes have no common mean: ask for one of them, by its name")

    def expected(self) -> Tensor:
        """The likeliest combination with what to expect of the other parts there."""
        index = self.log_weight.argmax(-1)
        rest = self._rest_given(index)
        return self._joined(index, {name: belief.expected() for name, belief in rest.items()})

    def uncertainty(self) -> Tensor:
        """The entropy of the combinations and, in it, the others' uncertainty on average."""
        total: Tensor = torch.special.entr(self.log_weight.exp()).sum(-1)
        for belief in self.rest.values():
            total = total + (self.log_weight.exp() * belief.uncertainty()).sum(-1)
        return total

    def part(self, name: str) -> Belief:
        """What is believed of one part, whatever the others are."""
        if name in self.rest:
            return self.rest[name].averaged(self.log_weight)
        values = self.outcome.combinations[:, self.outcome.tied.index(name)]
        every = self.outcome.parts[name].enumerate()
        assert every is not None
        # One more axis, where only the combinations with each value of this part count.
        fits = torch.where(values == every[:, None], 0.0, -math.inf)
        weight = (self.log_weight[..., None, :] + fits).logsumexp(-1)
        return self.outcome.parts[name].finite_belief(weight)

    def split(self) -> dict[str, Belief]:
        """Every part, whatever the others are."""
        return {name: self.part(name) for name in self.outcome.parts}

    def averaged(self, log_weight: Tensor) -> Self:
        """Never asked for: several outcomes together are no part of others."""
        raise InternalError("several outcomes are not averaged")

    def tensors(self) -> dict[str, Tensor]:
        """Those of the parts with the part's name in front."""
        found = {"log_weight": self.log_weight}
        for name, belief in self.rest.items():
            found |= {f"{name}.{key}": value for key, value in belief.tensors().items()}
        return found

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """With every tensor changed."""
        rest = {name: belief.each(change) for name, belief in self.rest.items()}
        return type(self)(self.outcome, change(self.log_weight), rest)

    def double(self) -> Self:
        """In double precision, with probabilities that sum to one there."""
        rest = {name: belief.double() for name, belief in self.rest.items()}
        return type(self)(self.outcome, self.log_weight.double().log_softmax(-1), rest)


@dataclass(frozen=True, init=False, repr=False)
class Outcomes(Outcome):
    """Several outcomes of one trial by name. A simulator returns a dict, and `tell` takes one.

    >>> from aline.spaces import Binary, Real
    >>> Outcomes(choice=Binary(), rt=Real()).read({"choice": True, "rt": 0.4})
    {'choice': 1.0, 'rt': 0.4}
    >>> both = Outcomes(choice=Binary(), rt=Real())
    >>> both.event_shape, both.column("rt"), both.is_continuous
    ((2,), 1, False)
    >>> both.tied, both.combinations.tolist()  # no and yes, each with a belief about rt
    (('choice',), [[-1.0], [1.0]])
    >>> both.combination(torch.tensor([[-1.0, 0.4], [1.0, 0.4]]))  # no, yes
    tensor([0, 1])
    """

    kind: ClassVar[str] = "several"

    items: tuple[tuple[str, Outcome], ...]

    def __init__(self, **parts: Outcome):
        for name, part in parts.items():
            if not isinstance(part, Outcome) or isinstance(part, Outcomes):
                raise InputError(f"{name} must be one outcome, such as Real(), got {part!r}")
        if len(parts) < 2:
            raise InputError("Outcomes takes at least two, Outcomes(choice=Binary(), rt=Real())")
        object.__setattr__(self, "items", tuple(parts.items()))

    def __repr__(self) -> str:
        return f"Outcomes({', '.join(f'{name}={part!r}' for name, part in self.items)})"

    @property
    def parts(self) -> dict[str, Outcome]:
        """The outcomes by name."""
        return dict(self.items)

    def pick(self, plain: Mapping[str, Any], name: str) -> Any:
        """A part of one outcome."""
        return plain[name]

    def split(self, y: Tensor) -> dict[str, Tensor]:
        """A column a part."""
        return dict(zip(self.parts, y.unbind(-1), strict=True))

    def column(self, name: str) -> int:
        """Where a part stands on the network's scale."""
        return list(self.parts).index(name)

    @property
    def event_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """As many numbers as parts."""
        return (len(self.items),)

    @property
    def is_continuous(self) -> bool:  # type: ignore[override]
        """Whether all parts are."""
        return all(part.is_continuous for part in self.parts.values())

    # Scales.

    def to_network(self, user: Mapping[str, User]) -> Tensor:
        """A column a part."""
        columns = [part.to_network(user[name]) for name, part in self.items]
        return torch.stack(torch.broadcast_tensors(*_same_type(columns)), -1)

    def to_user(self, y: Tensor) -> dict[str, Tensor]:
        """The parts by name."""
        columns = zip(self.items, y.unbind(-1), strict=True)
        return {name: part.to_user(column) for (name, part), column in columns}

    def log_volume(self, y: Tensor) -> Tensor:
        """Of all parts together."""
        columns = zip(self.parts.values(), y.unbind(-1), strict=True)
        return torch.stack([part.log_volume(column) for part, column in columns]).sum(0)

    @property
    def is_fitted(self) -> bool:
        """Whether all parts are."""
        return all(part.is_fitted for part in self.parts.values())

    def fitted(self, samples: Mapping[str, User]) -> Self:
        """With what training measures of each part."""
        return type(self)(**{name: part.fitted(samples[name]) for name, part in self.items})

    # What the network sees and says.

    @cached_property
    def tied(self) -> tuple[str, ...]:
        """The finite parts, where all their combinations are few."""
        counts = {name: part.enumerate() for name, part in self.items}
        finite = {name: len(values) for name, values in counts.items() if values is not None}
        return tuple(finite) if math.prod(finite.values()) <= COMBINATIONS else ()

    @cached_property
    def combinations(self) -> Tensor:
        """Of the tied parts, [combination, tied part]; one of none where no parts are."""
        # Kept, so that it must not be a tensor that inference mode made: training reads it too.
        with torch.inference_mode(False):
            values = [self.parts[name].enumerate() for name in self.tied]
            found = [one for one in values if one is not None]
            if not found:
                return torch.zeros(1, 0)
            return torch.stack(torch.meshgrid(*found, indexing="ij"), -1).reshape(-1, len(found))

    def combination(self, value: Tensor) -> Tensor:
        """Which combination values [..., part] have."""
        tied = value[..., [self.column(name) for name in self.tied]]
        return (tied[..., None, :] - self.combinations).abs().sum(-1).argmin(-1)

    def _rest(self) -> dict[str, Outcome]:
        tied = self.tied
        return {name: part for name, part in self.items if name not in tied}

    @property
    def width(self) -> int:
        """That of all parts."""
        return sum(part.width for part in self.parts.values())

    def encode(self, y: Tensor) -> Tensor:
        """The parts beside each other."""
        columns = zip(self.parts.values(), y.unbind(-1), strict=True)
        return torch.cat([part.encode(column) for part, column in columns], -1)

    def head_start(self, components: int, read: int) -> Tensor:
        """A logit a combination, then of each combination all other parts' numbers."""
        count = len(self.combinations)
        each = [part.head_start(components, read) for part in self._rest().values()]
        return torch.cat([torch.zeros(count), *each * count])

    def belief(self, numbers: Tensor, read: Tensor, zoom: Tensor | None = None) -> Joint:
        """A logit a combination, then of each combination all other parts' numbers."""
        count, rest = len(self.combinations), self._rest()
        logits, others = numbers[..., :count], numbers[..., count:]
        found: dict[str, Belief] = {}
        if rest:
            others = others.unflatten(-1, (count, -1))
            seen = read[..., None, :].expand(*others.shape[:-1], read.shape[-1])
            sizes = self._sizes(others.shape[-1], read.shape[-1])
            split = zip(rest.items(), others.split(sizes, -1), strict=True)
            found = {name: part.belief(own, seen, zoom) for (name, part), own in split}
        return Joint(self, logits.log_softmax(-1), found)

    def _sizes(self, total: int, read: int) -> list[int]:
        """How many of a combination's numbers belong to each part, whatever the components."""
        rest = self._rest().values()
        one, two = ([len(part.head_start(c, read)) for part in rest] for c in (1, 2))
        more = sum(two) - sum(one)
        components = 1 + (total - sum(one)) // more if more else 1
        return [a + (components - 1) * (b - a) for a, b in zip(one, two, strict=True)]

    def restore(self, tensors: Mapping[str, Tensor]) -> Joint:
        """The same from its tensors."""
        found = {}
        for name, part in self._rest().items():
            front = f"{name}."
            own = {k.removeprefix(front): v for k, v in tensors.items() if k.startswith(front)}
            found[name] = part.restore(own)
        return Joint(self, tensors["log_weight"], found)

    def mirrored(self, y: Tensor) -> Tensor | None:
        """With all parts mirrored that have keys."""
        found = {name: self.parts[name].mirrored(part) for name, part in self.split(y).items()}
        if all(part is None for part in found.values()):
            return None
        kept = self.split(y)
        return torch.stack([kept[n] if part is None else part for n, part in found.items()], -1)

    def enumerate(self) -> Tensor | None:
        """Every combination, where all parts are tied."""
        if self._rest():
            return None
        order = [self.tied.index(name) for name in self.parts]
        return self.combinations[:, order]

    # One outcome as plain data.

    def read(self, value: Any) -> dict[str, Any]:
        """A mapping with a value for each name, checked."""
        self._check_names(value, "an outcome")
        return {name: _about(name, part.read, value[name]) for name, part in self.items}

    def read_all(self, values: Any) -> list[Any]:
        """A list of mappings, or a mapping of lists."""
        if isinstance(values, Mapping):
            self._check_names(values, "outcomes")
            columns = [_listed(values[name]) for name in self.parts]
            if len({len(column) for column in columns}) > 1:
                raise InputError(f"outcomes must be as many of each of {', '.join(self.parts)}")
            rows = zip(*columns, strict=True)
            values = [dict(zip(self.parts, row, strict=True)) for row in rows]
        return super().read_all(values)

    def _check_names(self, value: Any, what: str) -> None:
        names = ", ".join(self.parts)
        if not isinstance(value, Mapping):
            raise InputError(f"{what} must be a dict with {names}, got {short(value)}")
        missing = [name for name in self.parts if name not in value]
        unknown = [str(name) for name in value if name not in self.parts]
        if missing or unknown:
            wrong = f"{', '.join(missing)} missing" if missing else f"unknown {', '.join(unknown)}"
            raise InputError(f"{what} must be a dict with {names}, got one with {wrong}")

    def from_plain(self, values: Sequence[Any]) -> dict[str, User]:
        """A column a part."""
        return {n: part.from_plain([value[n] for value in values]) for n, part in self.items}

    def to_plain(self, user: Mapping[str, User]) -> list[Any]:
        """A dict an outcome."""
        columns = [part.to_plain(user[name]) for name, part in self.items]
        return [dict(zip(self.parts, row, strict=True)) for row in zip(*columns, strict=True)]

    def values(self, value: Any) -> dict[str, User]:
        """Outcomes by name, checked."""
        self._check_names(value, "an outcome")
        return {name: _about(name, part.values, value[name]) for name, part in self.items}

    def moments(self, belief: Belief) -> tuple[Tensor, Tensor]:
        """Each part has its own."""
        return belief.moments()

    def simulated(self, values: Any, shape: Sequence[int], name: str = "") -> User:
        """A dict of what each part's simulator would return."""
        self._check_names(values, "what simulate returns")
        return {n: part.simulated(values[n], shape, n) for n, part in self.items}

    # Words and plain data.

    def words(self) -> str:
        """Of each part."""
        return " and ".join(f"{name} ({part.words()})" for name, part in self.items)

    def text(self, plain: Mapping[str, Any]) -> str:
        """The parts one after the other."""
        return ", ".join(part.text(plain[name]) for name, part in self.items)

    @property
    def text_width(self) -> int:
        """With the commas between them."""
        return sum(part.text_width + 2 for part in self.parts.values()) - 2

    def form(self) -> dict[str, Any]:
        """A form with a field a part; keys are those of the first field that has any."""
        fields = [{"name": name, **part.form()} for name, part in self.items]
        with_choices = [field for field in fields if "choices" in field]
        for field in with_choices[1:]:
            field["choices"] = [{**choice, "key": None} for choice in field["choices"]]
        return {"kind": self.kind, "fields": fields}

    def columns(self) -> list[str]:
        """One a part."""
        return [f"outcome.{name}" for name in self.parts]

    def cells(self, plain: Mapping[str, Any]) -> list[str]:
        """One a part."""
        return [cell for name, part in self.items for cell in part.cells(plain[name])]

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        parts = {name: part.to_json() for name, part in self.items}
        return {"kind": self.kind, "parts": parts}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(**{name: outcome_from_json(part) for name, part in data["parts"].items()})

    def signature(self) -> dict[str, Any]:
        """Plain data without what training measured."""
        parts = {name: part.signature() for name, part in self.items}
        return {"kind": self.kind, "parts": parts}


def _about(name: str, work: Callable[[Any], Any], value: Any) -> Any:
    """With the part's name in front of what is wrong with it."""
    try:
        return work(value)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _same_type(columns: list[Tensor]) -> list[Tensor]:
    """In the widest precision of any of them."""
    is_double = any(column.dtype == torch.float64 for column in columns)
    return [column.double() if is_double else column.float() for column in columns]


def _listed(values: Any) -> list[Any]:
    listed = values.tolist() if hasattr(values, "tolist") else values
    is_one = isinstance(listed, str) or not isinstance(listed, Iterable)
    return [listed] if is_one else list(listed)
