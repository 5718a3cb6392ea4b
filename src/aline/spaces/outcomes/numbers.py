"""Numbers as people and simulators give them, checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aline.errors import InputError

GIVEN = "an outcome"  # what a person gives, in messages; else it is a simulator's


def tensor_of(values: Any) -> Tensor:
    """A tensor as it is; numbers and numpy arrays as a tensor."""
    if torch.is_tensor(values):
        return values
    try:
        return torch.as_tensor(np.asarray(values))
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"outcomes must be numbers, got {short(values)}") from None


def number_of(value: Any) -> float:
    """One number as a person gives it."""
    if isinstance(value, int | float):
        return float(value)
    try:
        tensor = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"an outcome must be a number, got {value!r}") from None
    if tensor.numel() != 1:
        raise InputError(f"an outcome must be one number, got shape {tuple(tensor.shape)}")
    return float(tensor.reshape(()))


def strict_number_of(value: Any) -> float | None:
    """A number that is not a yes or a no; None if it is anything else."""
    if isinstance(value, bool | str | np.bool_):
        return None
    try:
        return number_of(value)
    except InputError:
        return None


def whole_number_of(value: Any) -> int | None:
    """Likewise one that is whole."""
    number = strict_number_of(value)
    if number is None or not math.isfinite(number) or number != round(number):
        return None
    return int(number)


def refuse(user: Tensor, wrong: Tensor, what: str, rule: str, remedy: str) -> None:
    """Raise an error if any value is wrong; the remedy addresses the author of the simulator."""
    if bool(wrong.any()):
        got = f"{float(user[wrong].reshape(-1)[0]) + 0.0:g}"  # which has no minus zero
        end = "" if what == GIVEN else f": {remedy}"
        raise InputError(f"{what} must {rule}, got {got}{end}")


def short(values: Any) -> str:
    """A value for a message, in one line."""
    text = repr(values)
    return text if len(text) <= 60 and "\n" not in text else f"a {type(values).__name__}"
