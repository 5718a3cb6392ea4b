"""How much memory an experiment keeps."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from aline.experiment import Experiment, Storage
from aline.spaces import Design, Parameters
from aline.tasks import Spec

# What experiments share with each other, their model above all.
_SHARED = (torch.nn.Module, Storage, Spec, Design, Parameters, type, ModuleType, FunctionType)


def weigh(experiment: Experiment) -> int:
    """The bytes that an experiment holds: arrays, and Python's objects.

    Some hundred kilobytes of it are its model's, which keeps more than weights.
    """
    found, seen = 0, set[int]()
    waiting: list[Any] = [vars(experiment)]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, _SHARED):
            continue
        seen.add(id(one))
        found += _own_bytes(one, seen)
        waiting.extend(_parts(one))
    return found


def _own_bytes(one: Any, seen: set[int]) -> int:
    if isinstance(one, torch.Tensor):
        storage = one.untyped_storage()
        if storage.data_ptr() in seen:  # of a tensor that shares its memory
            return sys.getsizeof(one)
        seen.add(storage.data_ptr())
        return sys.getsizeof(one) + storage.nbytes()
    if isinstance(one, np.ndarray) and one.base is not None:
        return 0  # its base counts
    return sys.getsizeof(one)


def _parts(one: Any) -> Iterator[Any]:
    if isinstance(one, Mapping):
        yield from one.keys()
        yield from one.values()
    elif isinstance(one, list | tuple | set | frozenset):
        yield from one
    elif isinstance(one, np.ndarray):
        yield one.base
    elif isinstance(one, MethodType):
        yield one.__self__
    elif not isinstance(one, torch.Tensor | str | bytes | int | float | None):
        yield from (getattr(one, name, None) for name in getattr(type(one), "__slots__", ()))
        yield getattr(one, "__dict__", None)
