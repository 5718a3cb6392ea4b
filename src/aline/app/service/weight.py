"""How much memory an experiment keeps."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from aline.engine import OnnxRunner
from aline.experiment import Experiment, Storage
from aline.spaces import Design, Parameters
from aline.tasks import Spec

SAMPLE = 50  # of more parts than these, so many are weighed, whichever: nobody can hide any
# What experiments share with each other, their model above all.
_SHARED = (
    torch.nn.Module,
    OnnxRunner,
    Storage,
    Spec,
    Design,
    Parameters,
    type,
    ModuleType,
    FunctionType,
)


def weigh(experiment: Experiment) -> int:
    """The bytes that an experiment holds: arrays, and Python's objects, of thousands some.

    Some hundred kilobytes of it are its model's, which keeps more than weights.
    """
    found, seen = 0.0, set[int]()
    waiting: list[tuple[Any, float]] = [(vars(experiment), 1.0)]  # each for how many it stands
    while waiting:
        one, count = waiting.pop()
        if id(one) in seen or isinstance(one, _SHARED):
            continue
        seen.add(id(one))
        found += count * _own_bytes(one, seen)
        for parts in _parts(one):
            some = parts if len(parts) <= SAMPLE else random.sample(parts, SAMPLE)
            waiting.extend((part, count * len(parts) / len(some)) for part in some)
    return int(found)


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


def _parts(one: Any) -> Iterator[Sequence[Any]]:
    """What an object holds, in kinds that are like each other."""
    if isinstance(one, Mapping):
        yield from ([*one.keys()], [*one.values()]) if one else ()
    elif isinstance(one, list | tuple | set | frozenset):
        yield from ([*one],) if one else ()
    elif isinstance(one, np.ndarray):
        yield [one.base]
    elif isinstance(one, MethodType):
        yield [one.__self__]
    elif not isinstance(one, torch.Tensor | str | bytes | int | float | None):
        slots = getattr(type(one), "__slots__", ())
        yield [*(getattr(one, name, None) for name in slots), getattr(one, "__dict__", None)]
