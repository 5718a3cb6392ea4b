"""Running experiments begin."""

from __future__ import annotations

from aline.episodes import Context
from aline.model.live import begin_live
from aline.model.live_functions import begin_function
from aline.model.live_native import begin_native, is_compiled
from aline.model.network import Network, View
from aline.model.tape import begin_tape


def begin(network: Network, batch: int = 1) -> View:
    """A view of no data yet, as cheap to extend as the network's kind of context allows."""
    looks_at_functions = network.kernels is not None and network.close_up is not None
    outcome = network.spec.outcome
    is_wide = batch == 1 and outcome.width > 1  # the live engines know one number an outcome
    if network.config.context == "full" or is_wide or (batch == 1 and looks_at_functions):
        return network.read(Context.empty(batch, len(network.spec.design), outcome.event_shape))
    if batch > 1:
        return begin_tape(network, batch)
    if network.kernels is None:
        return begin_live(network)
    return begin_native(network) if is_compiled() else begin_function(network)
