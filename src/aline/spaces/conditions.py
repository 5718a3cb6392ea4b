"""Which designs are possible, where axes depend on each other.

A condition is a function of the design's columns, such as `lambda d: d["late"] > d["soon"]`. It is
called once with symbols that record the operations on them. So it becomes plain data that a model's
card keeps, as long as it is made of numbers, names of levels, arithmetic and comparisons. Any other
function works too, but stays in the task's own file.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from aline.errors import InputError, StateError
from aline.spaces.axes import Axis

Columns = Mapping[str, Any]
Function = Callable[[Columns], Any]

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne, "+": operator.add, "-": operator.sub, "*": operator.mul,
    "/": operator.truediv, "**": operator.pow, "&": operator.and_, "|": operator.or_,
}  # fmt: skip
_UNARY: dict[str, Callable[[Any], Any]] = {"~": operator.invert, "neg": operator.neg, "abs": abs}
_AXIS, _LEVEL = "axis", "level"


class Term:
    """A stand-in for a column: notes what is done to it, as nested lists."""

    def __init__(self, tree: list[Any], axes: Mapping[str, Axis]):
        self.tree, self._axes = tree, axes

    def _with(self, symbol: str, other: Any, is_swapped: bool = False) -> Term:
        sides = [self.tree, self._leaf(other)]
        return Term([symbol, *(reversed(sides) if is_swapped else sides)], self._axes)

    def _leaf(self, other: Any) -> Any:
        if isinstance(other, Term):
            return other.tree
        if isinstance(other, str):
            return self._level(other)
        if isinstance(other, bool | int | float):
            return other
        raise TypeError(f"not in a condition's own terms: {other!r}")

    def _level(self, name: str) -> list[str]:
        axis = self.tree[1] if self.tree[0] == _AXIS else None
        if axis is None or name not in self._axes[axis].names:
            known = f"{axis} is {self._axes[axis].words()}" if axis else "it is compared with none"
            raise InputError(f"a condition names the level {name!r}, and {known}")
        return [_LEVEL, axis, name]

    def __bool__(self) -> bool:
        raise InputError(
            "a condition is on whole columns: write & for and, | for or, ~ for not, each side in "
            "parentheses, and (1 < x) & (x < 5) for 1 < x < 5"
        )

    def __invert__(self) -> Term:
        return Term(["~", self.tree], self._axes)

    def __neg__(self) -> Term:
        return Term(["neg", self.tree], self._axes)

    def __abs__(self) -> Term:
        return Term(["abs", self.tree], self._axes)

    abs = __abs__  # as of a tensor

    __hash__ = None  # type: ignore[assignment]


def _noting(symbol: str, is_swapped: bool = False) -> Callable[[Term, Any], Term]:
    return lambda self, other: self._with(symbol, other, is_swapped)


for _symbol, _function in _BINARY.items():
    _plain = _function.__name__.strip("_")
    setattr(Term, f"__{_plain}__", _noting(_symbol))
    if _plain not in ("lt", "le", "gt", "ge", "eq", "ne"):  # which Python turns round by itself
        setattr(Term, f"__r{_plain}__", _noting(_symbol, is_swapped=True))


class Condition:
    """Says of columns of designs, as the simulator sees them, which rows are possible."""

    def __init__(self, axes: Mapping[str, Axis], function: Function | None, tree: Any = None):
        self._axes, self._function, self._tree = axes, function, tree

    @classmethod
    def of(cls, axes: Mapping[str, Axis], function: Function) -> Condition:
        """A user's function, as plain data where that is possible."""
        if not callable(function):
            raise InputError(
                f'where takes a function, where(lambda d: d["late"] > d["soon"]), got {function!r}'
            )
        symbols = {name: Term([_AXIS, name], axes) for name in axes}
        try:
            found = function(_Named(symbols))
        except InputError:
            raise
        except (TypeError, AttributeError, ValueError, RuntimeError):
            return cls(axes, function)
        return cls(axes, None, found.tree) if isinstance(found, Term) else cls(axes, function)

    @property
    def is_known(self) -> bool:
        """Whether it can be asked: a card may only say that there is one."""
        return self._tree is not None or self._function is not None

    def __and__(self, other: Condition) -> Condition:
        """Both."""
        if self._tree is not None and other._tree is not None:
            return Condition(self._axes, None, ["&", self._tree, other._tree])
        return Condition(self._axes, lambda d: self(d) & other(d))

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        """Which rows of columns [...] are possible, bool [...]."""
        if not self.is_known:
            raise StateError(
                "the condition on the designs is in the task's own file, as the model's card "
                "cannot hold it: load the model with its task, aline.load(MODEL, task=task)"
            )
        if self._function is not None:
            found = self._function(_Named(columns))
        else:
            found = _value(self._tree, columns, self._axes)
        shape = next(iter(columns.values())).shape
        if not (torch.is_tensor(found) and found.dtype == torch.bool and found.shape == shape):
            raise InputError(
                "a condition must give a yes or no for every row of its columns, got "
                f"{_excerpt(found)}: compare columns, and join with & and |"
            )
        return found

    def words(self) -> str:
        """The condition as one would write it."""
        return "a condition in its task's file" if self._tree is None else _words(self._tree)

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        return {"expression": self._tree}  # None: it lives in the task's own file


class _Named(dict[str, Any]):
    """Columns by name, with words for a name that there is not."""

    def __missing__(self, name: str) -> Any:
        raise InputError(f"a condition can use the axes {', '.join(self)}, got {name!r}")


def _value(tree: Any, columns: Mapping[str, Tensor], axes: Mapping[str, Axis]) -> Any:
    if not isinstance(tree, list):
        return tree if isinstance(tree, bool) else float(tree)
    symbol, *parts = tree
    if symbol == _AXIS:
        return columns[parts[0]]
    if symbol == _LEVEL:
        return axes[parts[0]].number_of(parts[1])
    values = [_value(part, columns, axes) for part in parts]
    return _UNARY[symbol](*values) if symbol in _UNARY else _BINARY[symbol](*values)


def _words(tree: Any, is_inside: bool = False) -> str:
    if not isinstance(tree, list):
        return f"{tree:g}"
    symbol, *parts = tree
    if symbol == _AXIS:
        return str(parts[0])
    if symbol == _LEVEL:
        return str(parts[1])
    if symbol in _UNARY:
        return {"~": "not ", "neg": "-", "abs": "abs"}[symbol] + f"({_words(parts[0])})"
    spelled = {"&": "and", "|": "or"}.get(symbol, symbol)
    text = f" {spelled} ".join(_words(part, is_inside=True) for part in parts)
    return f"({text})" if is_inside else text


def _excerpt(value: Any) -> str:
    kind = f"a tensor of {value.dtype} and shape" if torch.is_tensor(value) else ""
    return f"{kind} {list(value.shape)}" if kind else repr(value)[:80]


def condition_from_json(data: Mapping[str, Any], axes: Mapping[str, Axis]) -> Condition:
    """Read what `Condition.to_json` wrote."""
    tree = data["expression"]
    if tree is not None:
        _check(tree, axes)
    return Condition(axes, None, tree)


def _check(tree: Any, axes: Mapping[str, Axis]) -> None:
    """A card's expression is of known symbols and axes; KeyError or ValueError if not."""
    if not isinstance(tree, list):
        if not isinstance(tree, bool | int | float):
            raise ValueError(f"a condition holds {tree!r}")
        return
    symbol, *parts = tree
    if symbol == _AXIS:
        axes[parts[0]]
    elif symbol == _LEVEL:
        axes[parts[0]].number_of(parts[1])
    elif len(parts) != (1 if symbol in _UNARY else 2) or symbol not in {*_UNARY, *_BINARY}:
        raise ValueError(f"a condition holds {symbol!r}")
    else:
        for part in parts:
            _check(part, axes)
