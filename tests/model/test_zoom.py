"""Close looks: what they see is relative, and only what may be seen."""

import torch
from small import largest_difference, seeded

from aline.model import initial_weights
from aline.model.zoom import LearnedAverages, RawObservations, Zoom, Zoomed, ZoomLayer

DESIGN, WIDTH, HEADS, TARGETS, LENGTH = 2, 16, 2, 3, 7
PLAIN = HEADS * (DESIGN + 1)


def some_look() -> ZoomLayer:
    with initial_weights(0):
        return ZoomLayer(DESIGN, 1, WIDTH, HEADS, PLAIN).requires_grad_(False)


def some_sight() -> tuple[Zoomed, torch.Tensor, RawObservations]:
    generator = seeded(1)
    sight = Zoomed(
        torch.randn(2, 1, TARGETS, WIDTH, generator=generator),
        torch.randn(2, 1, TARGETS, DESIGN, generator=generator),
        torch.full((2, 1, TARGETS, 1), -1.0),
    )
    plain = torch.randn(2, 1, TARGETS, PLAIN, generator=generator)
    return (
        sight,
        plain,
        RawObservations.of(torch.randn(2, 1, LENGTH, DESIGN + 1, generator=generator)),
    )


def test_moving_everything_moves_the_centre_as_much() -> None:
    look, (sight, plain, seen) = some_look(), some_sight()
    shift = torch.tensor([0.7, -1.1])
    by = shift[:, None, None, None, None]
    moved = RawObservations(torch.cat([seen.raw[:2] + by, seen.raw[2:]]), None)
    before = look(sight, plain, seen)
    after = look(sight._replace(centre=sight.centre + shift), plain, moved)
    assert largest_difference(after.centre, before.centre + shift) < 1e-5
    assert largest_difference(after.tokens, before.tokens) < 1e-5
    assert largest_difference(before.centre, sight.centre) > 1e-3


def test_a_step_is_in_units_of_the_scale() -> None:
    """A picture a thousand times smaller, seen a thousand times closer, looks the same."""
    look, (sight, plain, seen) = some_look(), some_sight()
    look.query.weight[:, -1] = 0  # but for being told the scale itself
    offset = seen.raw[:2] - sight.centre[:, :, :1].movedim(-1, 0)[..., None]
    tiny = RawObservations(torch.cat([1e-2 * offset, seen.raw[2:]]), None)
    large = RawObservations(torch.cat([offset, seen.raw[2:]]), None)
    zero = torch.zeros_like(sight.centre)
    near = sight._replace(centre=zero, log_scale=sight.log_scale + torch.tensor(1e-2).log())
    before = look(sight._replace(centre=zero), plain, large)
    after = look(near, plain, tiny)
    assert largest_difference(100 * after.centre, before.centre) < 1e-4
    assert largest_difference(after.tokens, before.tokens) < 1e-4


def test_what_is_hidden_is_not_seen() -> None:
    look, (sight, plain, seen) = some_look(), some_sight()
    bias = torch.zeros(2, 1, 1, LENGTH)
    bias[..., 4:] = -torch.inf
    masked = look(sight, plain, RawObservations(seen.raw, bias))
    shorter = look(sight, plain, RawObservations(seen.raw[..., :4], None))
    for a, b in zip(masked, shorter, strict=True):
        assert largest_difference(a, b) < 1e-5
    assert largest_difference(masked.tokens, look(sight, plain, seen).tokens) > 1e-3


def test_nothing_seen_leaves_the_centre_where_it_is() -> None:
    sight, plain, seen = some_sight()
    empty = RawObservations(seen.raw[..., :0], None)
    assert torch.equal(some_look()(sight, plain, empty).centre, sight.centre)


def test_the_first_centre_is_an_average_of_what_was_read_and_the_prior_mean() -> None:
    with initial_weights(0):
        zoom = Zoom(2, DESIGN, 1, WIDTH, HEADS).requires_grad_(False)
    sight, plain, seen = some_sight()
    _, beside = zoom(sight.tokens, plain, seen)
    assert torch.equal(beside[..., :PLAIN], plain)
    first = beside[..., PLAIN : PLAIN + DESIGN]
    read = plain.unflatten(-1, (HEADS, -1))[..., :DESIGN]
    assert bool((first <= read.amax(-2).clamp_min(0)).all())
    assert bool((first >= read.amin(-2).clamp_max(0)).all())


def test_gradients_written_by_hand_are_those_of_the_numbers() -> None:
    generator, hidden = seeded(3), WIDTH // 2
    shapes = [
        (DESIGN + 2, 2, 3, TARGETS, LENGTH),
        (2, 3, TARGETS, hidden),
        (hidden, DESIGN + 2),
        (2 * HEADS, hidden),
        (2 * HEADS,),
    ]
    inputs = [
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in shapes
    ]
    bias = torch.zeros(2, 3, 1, LENGTH).double()
    bias[:, 0] = bias[:, 1, :, 4:] = -torch.inf
    assert torch.autograd.gradcheck(
        lambda *given: LearnedAverages.apply(*given, bias, DESIGN), inputs
    )
