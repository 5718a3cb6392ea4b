"""One layer: however its keys are read, the same comes back."""

import pytest
import torch
from small import largest_difference, seeded
from torch import Tensor

from aline.model import initial_weights
from aline.model.attention import Keys, Layer, bias_of

WIDTH, HEADS, BATCH, LENGTH, OWN, TOKENS = 16, 2, 3, 6, 4, 9


def some_layer() -> Layer:
    with initial_weights(0):
        layer = Layer(WIDTH, HEADS, 24).requires_grad_(False)
    for parameter in layer.parameters():
        parameter.mul_(1.5)
    return layer


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed))


def some_keys(layer: Layer) -> tuple[Keys, Keys]:
    """Of a context and, of one group alone, of a goal."""
    shared = layer.keys(random(BATCH, LENGTH, WIDTH, seed=1))
    return shared, layer.keys(random(BATCH, 1, OWN, WIDTH, seed=2))


def hidden(length: int, first: int) -> Tensor:
    """A bias that hides keys of each episode, never the first ones."""
    mask = torch.rand(BATCH, 1, length, generator=seeded(3)) < 0.6
    mask[..., :first] = True
    return bias_of(mask)


@pytest.mark.parametrize("context_hidden", [False, True])
@pytest.mark.parametrize("goal_hidden", [False, True])
def test_many_tokens_read_as_few_do(context_hidden: bool, goal_hidden: bool) -> None:
    layer, tokens = some_layer(), random(BATCH, TOKENS, WIDTH, seed=4)
    shared, private = some_keys(layer)
    bias = hidden(LENGTH, 1) if context_hidden else None
    own_bias = hidden(OWN, 0) if goal_hidden else None
    few = layer(tokens[:, None], shared, bias, private, own_bias).tokens[:, 0]
    many = layer.read_many(tokens, layer.absorb(shared, bias, private, own_bias))
    assert largest_difference(few, many) < 1e-5
    plain = layer(tokens[:, None], shared, None, private, None).tokens[:, 0]
    is_different = largest_difference(few, plain) > 1e-3
    assert is_different is (context_hidden or goal_hidden)


def test_logits_beyond_any_power_leave_numbers() -> None:
    layer, tokens = some_layer(), random(BATCH, TOKENS, WIDTH)
    shared, private = some_keys(layer)
    steep = Keys(1e4 * shared.keys, shared.values)
    read = layer.read_many(tokens, layer.absorb(steep, None, private, None))
    assert bool(read.isfinite().all())


def test_some_episodes_are_read_as_all() -> None:
    layer, tokens = some_layer(), random(BATCH, TOKENS, WIDTH)
    shared, private = some_keys(layer)
    absorbed, rows = layer.absorb(shared, None, private, None), slice(1, 3)
    all_ = layer.read_many(tokens, absorbed)
    assert largest_difference(layer.read_many(tokens[rows], absorbed.of(rows)), all_[rows]) < 1e-6


def test_private_keys_of_one_group_are_those_of_any() -> None:
    """For a single group they are read side by side with the shared ones."""
    layer, tokens = some_layer(), random(BATCH, 2, TOKENS, WIDTH)
    shared = layer.keys(random(BATCH, LENGTH, WIDTH, seed=1), random(BATCH, LENGTH, 3, seed=2))
    own = random(BATCH, 2, OWN, WIDTH, seed=3), random(BATCH, 2, OWN, 3, seed=4)
    both = layer(tokens, shared, None, layer.keys(*own))
    for group in range(2):
        rows = slice(group, group + 1)
        mine = layer.keys(*(part[:, rows] for part in own))
        alone = layer(tokens[:, rows], shared, None, mine)
        assert largest_difference(both.tokens[:, rows], alone.tokens) < 1e-5
        assert largest_difference(both.raw[:, rows], alone.raw) < 1e-5


def test_raw_numbers_come_back_as_averages() -> None:
    layer, tokens = some_layer(), random(BATCH, 1, TOKENS, WIDTH)
    raw = random(BATCH, LENGTH, 3, seed=2)
    shared = layer.keys(random(BATCH, LENGTH, WIDTH, seed=1), raw)
    read = layer(tokens, shared, None).raw.unflatten(-1, (HEADS, 3))
    assert bool((read <= raw.amax(1)[:, None, None, None] + 1e-5).all())
    assert bool((read >= raw.amin(1)[:, None, None, None] - 1e-5).all())
    same = layer.keys(random(BATCH, LENGTH, WIDTH, seed=1), torch.ones(BATCH, LENGTH, 3))
    assert largest_difference(layer(tokens, same, None).raw, torch.ones(())) < 1e-5


def test_no_tokens_at_all() -> None:
    """As of a task without parameters."""
    layer = some_layer()
    shared, private = some_keys(layer)
    for own in (None, private):
        read = layer(torch.zeros(BATCH, 1, 0, WIDTH), shared, None, own)
        assert read.tokens.shape == (BATCH, 1, 0, WIDTH)
