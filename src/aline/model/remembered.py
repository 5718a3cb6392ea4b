"""What follows from a network's weights, kept until they change.

A lab runs many experiments with one network: it is folded, and its digest taken, once for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from torch import nn

Result = TypeVar("Result")
Module = TypeVar("Module", bound=nn.Module)


def remembered(compute: Callable[[Module], Result]) -> Callable[[Module], Result]:
    """A function of a network that computes only what it has not computed already.

    Its result must not refer to the network, which could then never be let go. Torch does not
    count what is written through a tensor's `.data`, nor to tensors that were made in inference
    mode, which nothing can train: such a change is not seen.
    """
    kept: WeakKeyDictionary[Module, tuple[list[tuple[int, int]], Result]] = WeakKeyDictionary()

    def recall(network: Module) -> Result:
        now = _stamp(network)
        found = kept.get(network)
        if found is None or found[0] != now:
            found = kept[network] = (now, compute(network))
        return found[1]

    return recall


def _stamp(network: nn.Module) -> list[tuple[int, int]]:
    """Where each tensor lies and how often it was written to, as torch counts it."""
    # As `parameters()` and `buffers()`, in one walk without names: it is taken at every beginning.
    modules = [network]
    for one in modules:  # which grows meanwhile
        modules += [part for part in one._modules.values() if part is not None]
    every = [(*one._parameters.values(), *one._buffers.values()) for one in modules]
    tensors = [one for some in every for one in some if one is not None]
    return [(one.data_ptr(), 0 if one.is_inference() else one._version) for one in tensors]
