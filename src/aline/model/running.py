"""One running experiment begins."""

from __future__ import annotations

from aline.episodes import Context
from aline.model.live import begin_live
from aline.model.live_functions import begin_function
from aline.model.network import Network, View


def begin(network: Network) -> View:
    """A view of no data yet, as cheap to extend as the network's kind of context allows."""
    if network.config.context == "full":
        return network.read(Context.empty(1, len(network.spec.design)))
    return begin_live(network) if network.kernels is None else begin_function(network)
