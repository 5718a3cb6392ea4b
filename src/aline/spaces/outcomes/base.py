"""What every kind of outcome says of itself, and what every belief about one can be asked.

Axes are as in torch.distributions: an outcome has an `event_shape`, () for one number and (k,) for
several together. On the network's scale outcomes are tensors [..., *event_shape]. In the user's
units they are tensors [...], or a dict of them by name where there are several together. A single
outcome, as a person tells it and as a journal keeps it, is plain JSON data.

A new kind is one file with a subclass of `Outcome` and one of `Belief` (or one that is there
already), and its import in `__init__.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from aline.errors import CheckpointError, InputError, InternalError
from aline.spaces.outcomes.numbers import GIVEN, short, tensor_of

User = Any
"""Outcomes in the user's units: a tensor or an array, or a mapping of them by name."""


class Belief(ABC):
    """What is believed of an outcome at each target: a frozen dataclass of tensors [*target, ...].

    Everything is on the network's scale.
    """

    @property
    @abstractmethod
    def shape(self) -> torch.Size:
        """The target axes."""

    @abstractmethod
    def log_prob(self, value: Tensor) -> Tensor:
        """Log density or log probability [*target] of value [*target, *event]."""

    @abstractmethod
    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [count, *target, *event], independent across targets."""

    @abstractmethod
    def outcomes(self) -> tuple[Tensor, Tensor]:
        """Values [*target, n, *event] and weights [*target, n], for expectations.

        All values where they are finitely many, else a quadrature or draws that never change.
        """

    @abstractmethod
    def expected(self) -> Tensor:
        """The one outcome [*target, *event] to assume: the likeliest, or the mean of a number."""

    @abstractmethod
    def averaged(self, log_weight: Tensor) -> Self:
        """Over the last target axis, with these weights [*target]."""

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [*target]."""
        values, weights = self.outcomes()
        return weighted_moments(values, weights)

    def quantile(self, p: float) -> Tensor:
        """The smallest value [*target] that is reached with probability p."""
        raise InputError("this outcome has no order, so no quantile: use probabilities")

    def position(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """The probabilities [*target] of less than a value and of at most that."""
        raise InternalError("this outcome has no order, so no position in it")

    def split(self) -> dict[str, Belief]:
        """What is believed of each part; one alone is called "outcome"."""
        return {"outcome": self}

    def uncertainty(self) -> Tensor:
        """How unsure each prediction is, [*target]: the entropy of few values, else the spread."""
        return self.moments()[1]

    def moved(self, mean: Tensor, std: Tensor) -> Self:
        """The same in units of `std` [*target] from `mean` [*target]."""
        raise InternalError("only a real outcome has units to move")

    def tensors(self) -> dict[str, Tensor]:
        """What an exported graph gives; `Outcome.restore` reads it."""
        every = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in every.items() if torch.is_tensor(value)}

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """With every tensor changed."""
        changed = {name: change(value) for name, value in self.tensors().items()}
        return replace(self, **changed)  # type: ignore[type-var]

    def __getitem__(self, index: Any) -> Self:
        """Of some targets."""
        return self.each(lambda tensor: tensor[index])

    def unsqueeze(self, dim: int) -> Self:
        """With one more axis of targets, that values may broadcast along."""
        return self.each(lambda tensor: tensor.unsqueeze(dim))

    def double(self) -> Self:
        """In double precision."""
        return self.each(Tensor.double)


class Outcome(ABC):
    """What a measurement returns. Subclasses are frozen dataclasses, named in JSON by `kind`.

    >>> import numpy as np
    >>> from aline.spaces import Binary, Real
    >>> outcome = Binary()
    >>> outcome.words(), outcome.labels, outcome.axis, outcome.columns(), outcome.form()["kind"]
    ('a yes or a no', ('no', 'yes'), 'probability of yes', ['outcome'], 'binary')
    >>> outcome.read(True), outcome.read_all([0, 1]), outcome.text(1.0), outcome.cells(1.0)
    (1.0, [0.0, 1.0], 'yes', ['1.0'])
    >>> y = outcome.to_network(outcome.values([0, 1]))
    >>> y.tolist(), outcome.to_user(y).tolist(), outcome.to_plain(outcome.from_plain([0, 1]))
    ([-1.0, 1.0], [0.0, 1.0], [0.0, 1.0])
    >>> outcome.enumerate().tolist(), outcome.encode(y).shape[-1] == outcome.width
    ([-1.0, 1.0], True)
    >>> Binary.from_json(outcome.to_json()) == outcome, outcome.signature()
    (True, {'kind': 'binary'})
    >>> outcome.is_fitted, outcome.is_linear, outcome.is_ordered, outcome.text_width
    (True, False, False, 3)
    >>> [*outcome.parts], outcome.pick(1.0, "outcome"), [*outcome.split(y)], [*outcome.drawn(y)]
    (['outcome'], 1.0, ['outcome'], [''])
    >>> belief = outcome.finite_belief(torch.tensor([0.25, 0.75]).log())
    >>> outcome.moments(belief)[0], outcome.curves(belief)[""]
    (tensor(0.7500), tensor(0.7500))
    >>> outcome.restore(belief.tensors()) is not None
    True
    >>> start = outcome.head_start(components=4, read=3)
    >>> outcome.belief(start, torch.zeros(3)).shape, outcome.emulated(start, y[0]).shape
    (torch.Size([]), torch.Size([]))
    >>> outcome.simulated(np.array([0, 1]), (2,)), outcome.check(torch.tensor([1]), "this")
    (tensor([0, 1]), None)
    >>> outcome.check_declared(), outcome.reach()
    (None, None)
    >>> outcome.mirrored(y), outcome.log_volume(y).tolist()
    (tensor([ 1., -1.]), [0.0, 0.0])
    >>> Real().fitted(torch.tensor([1.0, 2.0, 3.0])).loc
    2.0
    """

    kind: ClassVar[str]
    measured: ClassVar[tuple[str, ...]] = ()  # the fields that training measures where not given
    event_shape: ClassVar[tuple[int, ...]] = ()
    is_continuous: ClassVar[bool] = False  # whether it can carry a gradient to the design
    is_yes_or_no: ClassVar[bool] = False
    heading: ClassVar[str] = "outcome"  # over a column of a table
    _kinds: ClassVar[dict[str, type[Outcome]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._kinds[cls.kind] = cls

    # Scales.

    @abstractmethod
    def to_network(self, user: User) -> Tensor:
        """From the user's units to [..., *event_shape]."""

    @abstractmethod
    def to_user(self, y: Tensor) -> User:
        """Undo what `to_network` does."""

    def log_volume(self, y: Tensor) -> Tensor:
        """Log |d user / d network| [...], to subtract from a log density on the network's scale."""
        return torch.zeros_like(y)

    @property
    def is_fitted(self) -> bool:
        """Whether all that training measures is known."""
        return all(getattr(self, name) is not None for name in self.measured)

    def fitted(self, samples: User) -> Self:
        """This outcome with what was not given measured on simulated outcomes."""
        return self

    @property
    def is_linear(self) -> bool:
        """Whether the network's scale is a shift and a stretch of the user's."""
        return False

    def reach(self) -> tuple[float, float] | None:
        """Between what numbers the posterior stays finite, in the user's units; None: all."""
        return None

    def check_declared(self) -> None:
        """Refuse, as a task's outcome, what is meant for other uses."""
        return

    # What the network sees and says.

    @property
    @abstractmethod
    def width(self) -> int:
        """How many numbers show an outcome to the network."""

    @abstractmethod
    def encode(self, y: Tensor) -> Tensor:
        """These numbers, [..., *event_shape] -> [..., width]."""

    @abstractmethod
    def head_start(self, components: int, read: int) -> Tensor:
        """The numbers that a head gives at first: it sees `read` averages of observations."""

    @abstractmethod
    def belief(self, numbers: Tensor, read: Tensor, zoom: Tensor | None = None) -> Belief:
        """What a head's numbers [..., n] mean, given the averages [..., read] that it saw."""

    def emulated(self, numbers: Tensor, y: Tensor) -> Tensor:
        """Log likelihood [...] of outcomes by an emulator's numbers [..., n], to a constant.

        As that of the belief, or of one like it that takes less time: it is asked often.
        """
        return self.belief(numbers, numbers[..., :0]).log_prob(y)

    @abstractmethod
    def restore(self, tensors: Mapping[str, Tensor]) -> Belief:
        """The belief whose `tensors()` these are."""

    def enumerate(self) -> Tensor | None:
        """Every possible outcome [n, *event_shape] on the network's scale; None if unlimited."""
        return None

    @property
    def is_ordered(self) -> bool:
        """Whether there are more than two values, in an order."""
        return True

    def mirrored(self, y: Tensor) -> Tensor | None:
        """Outcomes as swapped keys would give them, where there are keys in an order."""
        return None

    def finite_belief(self, log_weight: Tensor) -> Belief:
        """A belief from the log probabilities [..., n] of what `enumerate` names."""
        raise InternalError(f"an outcome of kind {self.kind} is not one of finitely many")

    # One outcome as plain data.

    @abstractmethod
    def read(self, value: Any) -> Any:
        """One outcome as a person gives it, checked, as plain JSON data."""

    def read_all(self, values: Any) -> list[Any]:
        """Several outcomes in a list or an array, checked."""
        listed = values.tolist() if hasattr(values, "tolist") else values
        if not isinstance(listed, Iterable) or isinstance(listed, str):
            listed = [listed]
        return [self.read(value) for value in listed]

    def from_plain(self, values: Sequence[Any]) -> User:
        """Outcomes that `read` gave, in the user's units, [n]."""
        return torch.tensor(values, dtype=torch.float64)

    def to_plain(self, user: User) -> list[Any]:
        """Outcomes [n] in the user's units as `read` gives them."""
        return [self.read(value) for value in tensor_of(user).reshape(-1).tolist()]

    # In the user's units, for predictions.

    def values(self, value: Any) -> User:
        """Outcomes [...] as a person gives them, checked."""
        tensor = tensor_of(value).double()
        if bool(tensor.isnan().any()):
            raise InputError(f"an outcome must not be NaN, got {short(value)}")
        self.check(tensor, GIVEN)
        return tensor

    def moments(self, belief: Belief) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [*target] in the user's units."""
        values, weights = belief.outcomes()
        return weighted_moments(self.to_user(values).to(weights.dtype), weights)

    has_mean: ClassVar[bool] = True  # whether outcomes can be averaged
    has_interval: ClassVar[bool] = True  # whether an interval of outcomes says something

    @property
    def labels(self) -> tuple[str, ...]:
        """What `enumerate` names, in words; () where outcomes are numbers."""
        return ()

    def drawn(self, y: Tensor) -> dict[str, Tensor]:
        """What is averaged to draw a curve: name -> [...]; "" where there is nothing to name."""
        return {"": self.to_user(y)}

    def curves(self, belief: Belief) -> dict[str, Tensor]:
        """The expectation of what is `drawn`, name -> [*target]."""
        values, weights = belief.outcomes()
        return {name: (weights * part).sum(-1) for name, part in self.drawn(values).items()}

    @property
    def axis(self) -> str:
        """What a curve's axis shows."""
        return "outcome"

    # Where several are together.

    @property
    def parts(self) -> Mapping[str, Outcome]:
        """The outcomes that are measured together; one alone is called "outcome"."""
        return {"outcome": self}

    def pick(self, plain: Any, name: str) -> Any:
        """A part of one outcome."""
        return plain

    def split(self, y: Tensor) -> dict[str, Tensor]:
        """The parts of outcomes [..., *event_shape], [...] each."""
        return {"outcome": y}

    # Simulators.

    def simulated(self, values: Any, shape: Sequence[int], name: str = "") -> User:
        """What a simulator returned, in the user's units [*shape], checked; `name` is a part's."""
        about = f" of {name}" if name else ""
        try:
            tensor = tensor_of(values)
        except InputError:
            raise InputError(
                f"simulate must return a tensor or an array of outcomes{about}, got {short(values)}"
            ) from None
        if tuple(tensor.shape) != tuple(shape):
            raise InputError(
                f"simulate must return outcomes{about} of the designs' shape {tuple(shape)}, got "
                f"{tuple(tensor.shape)}: theta[name] is [batch, 1] and design[name] [batch, count]"
            )
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise InputError(f"simulate returned NaN or infinite outcomes{about}: check its domain")
        self.check(tensor, f"what simulate returns{f' as {name}' if name else ''}")
        return tensor

    def check(self, user: Tensor, what: str) -> None:  # noqa: B027  # a number may be anything
        """Say so if a value in the user's units cannot be an outcome."""

    # Words and plain data.

    @abstractmethod
    def words(self) -> str:
        """What comes back of a trial: "a yes or a no"."""

    def text(self, plain: Any) -> str:
        """One outcome as it is shown."""
        return str(plain)

    @property
    def text_width(self) -> int:
        """How wide that is at most, about."""
        return max((len(label) for label in self.labels), default=7)

    @abstractmethod
    def form(self) -> dict[str, Any]:
        """How a person is asked, as plain data.

        `kind`; `choices`, each with its `value`, `label` and `key`, where there are some to choose
        from; else `range`, (low, high) with None where open, and `step`, "any" or a number;
        `fields`, forms with a `name`, where several are asked together.
        """

    def columns(self) -> list[str]:
        """The columns of a file that hold an outcome."""
        return ["outcome"]

    def cells(self, plain: Any) -> list[str]:
        """An outcome in these columns."""
        return [plain if isinstance(plain, str) else repr(plain)]

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(**{name: value for name, value in data.items() if name != "kind"})

    def signature(self) -> dict[str, Any]:
        """Plain data without what training measured: the same for the same task."""
        return {**self.to_json(), **dict.fromkeys(self.measured)}


def outcome_from_json(data: Mapping[str, Any]) -> Outcome:
    """Read what `to_json` wrote."""
    kind = Outcome._kinds.get(data["kind"])
    if kind is None:
        raise CheckpointError(
            f"this aline does not know outcomes of kind {data['kind']!r}: upgrade aline"
        )
    return kind.from_json(data)


def weighted_moments(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation [...] of values [..., n]."""
    mean = (weights * values).sum(-1)
    # Around the mean: far from zero the difference of squares would lose all digits.
    return mean, (weights * (values - mean[..., None]) ** 2).sum(-1).sqrt()


def choices_of(values: Sequence[Any], labels: Sequence[str], keys: Sequence[str]) -> list[Any]:
    """What a form offers; without a key beyond the last."""
    padded = [*keys, *[None] * len(labels)]
    named = zip(values, labels, padded, strict=False)
    return [{"value": value, "label": label, "key": key} for value, label, key in named]
