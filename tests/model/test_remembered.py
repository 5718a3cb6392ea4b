"""What follows from weights is computed once, and anew when they change."""

import gc
import weakref

import torch
from torch import nn

from aline.model.remembered import remembered


def test_until_the_weights_change() -> None:
    calls = []

    @remembered
    def total(network: nn.Linear) -> float:
        calls.append(network)
        return float(network.weight.detach().sum())

    network, other = nn.Linear(2, 3), nn.Linear(2, 3)
    assert total(network) == total(network) != total(other)
    assert len(calls) == 2

    optimizer = torch.optim.Adam(network.parameters())
    network(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert total(network) == float(network.weight.detach().sum())
    network.load_state_dict(other.state_dict())
    assert total(network) == total(other)
    network.weight = nn.Parameter(torch.zeros(3, 2))
    assert total(network) == 0.0


def test_a_network_can_be_let_go() -> None:
    width = remembered(lambda network: network.in_features)
    network = nn.Linear(2, 3)
    assert width(network) == 2
    gone = weakref.ref(network)
    del network
    gc.collect()
    assert gone() is None


def test_weights_made_in_inference_mode_are_remembered() -> None:
    calls: list[nn.Module] = []
    recall = remembered(lambda network: calls.append(network))
    with torch.inference_mode():
        made = nn.Linear(2, 2)
    recall(made), recall(made)
    assert len(calls) == 1
