"""Many observations of a running experiment taken in at once, instead of one by one.

A view that grows copies what it holds at every observation: thousands of them, as in the replay of
a long experiment, would take seconds. The numbers are those of `extend` up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from aline.episodes import Context
from aline.model.live import LiveView, Stored, begin_live, plain_columns
from aline.model.network import Network, View
from aline.model.running import begin


def first_views(network: Network, context: Context) -> Callable[[int], View] | None:
    """Views of the first so many observations of one experiment, from one pass over them all.

    None where the network's views only grow one by one.
    """
    if network.config.context == "full":  # where each is a pass of its own
        return lambda count: network.read(first_of(context, count))
    if type(begin(network)) is not LiveView:
        return None
    whole = _read_live(network, context)

    def first(count: int) -> View:
        keys, values, plain = whole.before
        rows = count + 1  # the first stands for no observation
        stored = Stored(keys[:, :, :rows], values[..., :rows], plain[..., :rows])
        return replace(whole, context=first_of(context, count), before=stored)

    return first


def first_of(context: Context, count: int) -> Context:
    """The first so many observations."""
    return Context(context.designs[:, :count], context.outcomes[:, :count])


def _read_live(network: Network, context: Context) -> LiveView:
    empty = begin_live(network)
    weights, (keys, values, plain) = empty.weights, empty.before
    designs, outcomes = context.designs[0], context.outcomes[0]
    seen = np.concatenate([weights.spectrum(designs), outcomes.numpy()[:, None]], 1)
    new_keys, new_values = weights.project(weights.context_states(weights.observation(seen)))
    new_plain = plain_columns(designs.numpy(), outcomes.numpy())[None]
    stored = Stored(
        np.concatenate([keys, new_keys], 2),
        np.concatenate([values, new_values], 3),
        np.concatenate([plain, new_plain], 2),
    )
    return replace(empty, context=context, before=stored)
