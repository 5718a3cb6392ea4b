"""What the network promises whatever its weights."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small import (
    SIZES,
    everything,
    goal_for,
    largest_difference,
    posterior_of,
    random_context,
    scores_of,
    seeded,
    small_network,
)
from torch import Tensor

from aline.episodes import Context, Goal, goal_of, predictions
from aline.errors import InputError, InternalError
from aline.model import Encoded, ModelConfig, Network, fresh
from aline.tasks import get

NETWORKS = {
    (context, task): small_network(task, context=context, zoom_layers=zoomed)
    for context in ("independent", "full")
    for task, zoomed in (("psychometric", 0), ("location", 2))
}
EVERY = pytest.mark.parametrize("network", NETWORKS.values(), ids=["-".join(k) for k in NETWORKS])
TOLERANCE = 1e-5
few = settings(max_examples=12, deadline=None)
lengths = st.integers(1, 12)
seeds = st.integers(0, 10_000)


def posterior(network: Network, context: Context) -> Tensor:
    return everything(posterior_of(network, context))


def both(network: Network, context: Context, points: Tensor) -> list[Tensor]:
    encoded = network.encode(context)
    return [everything(network.posterior(encoded)), everything(network.predictive(encoded, points))]


@EVERY
def test_the_data_matter(network: Network) -> None:
    """Without this the invariances below would be empty."""
    one, other = (random_context(network.spec, 2, 6, seed) for seed in (0, 1))
    assert largest_difference(posterior(network, one), posterior(network, other)) > 1e-2
    shorter = Context(one.designs[:, :5], one.outcomes[:, :5])
    assert largest_difference(posterior(network, one), posterior(network, shorter)) > 1e-3


@EVERY
@few
@given(length=lengths, seed=seeds, shuffle=seeds)
def test_the_order_of_the_context_does_not_matter(
    network: Network, length: int, seed: int, shuffle: int
) -> None:
    context = random_context(network.spec, 2, length, seed)
    order = torch.randperm(length, generator=seeded(shuffle))
    shuffled = Context(context.designs[:, order], context.outcomes[:, order])
    points = network.spec.design.sample(2, 3, seeded(seed))
    for a, b in zip(both(network, context, points), both(network, shuffled, points), strict=True):
        assert largest_difference(a, b) < TOLERANCE


@EVERY
@few
@given(length=lengths, padding=st.integers(1, 5), seed=seeds)
def test_padding_does_not_matter(network: Network, length: int, padding: int, seed: int) -> None:
    context = random_context(network.spec, 2, length, seed)
    rubbish = random_context(network.spec, 2, padding, seed + 1)
    mask = torch.arange(length + padding).expand(2, -1) < length
    padded = Context(
        torch.cat([context.designs, 7 * rubbish.designs], 1),
        torch.cat([context.outcomes, 9 * rubbish.outcomes], 1),
        mask,
    )
    assert largest_difference(posterior(network, context), posterior(network, padded)) < TOLERANCE
    goal = goal_for(network.spec, network.spec.parameters.names[:1], 2)
    candidates = network.spec.design.sample(2, 4, seeded(seed))
    plain, other = (
        scores_of(network, network.encode(each), goal, candidates) for each in (context, padded)
    )
    assert largest_difference(other, plain) < TOLERANCE


@EVERY
@few
@given(length=st.integers(0, 8), seed=seeds, count=st.integers(2, 20))
def test_candidates_do_not_see_each_other(
    network: Network, length: int, seed: int, count: int
) -> None:
    encoded = network.encode(random_context(network.spec, 2, length, seed))
    goal = goal_for(network.spec, network.spec.parameters.names[:1], 2)
    candidates = network.spec.design.sample(2, count, seeded(seed))
    together = scores_of(network, encoded, goal, candidates)
    alone = [scores_of(network, encoded, goal, candidates[:, i : i + 1]) for i in range(count)]
    assert largest_difference(together, torch.cat(alone, -1)) < TOLERANCE
    assert float(together.std()) > 1e-3


@EVERY
@pytest.mark.parametrize("padded", [False, True])
def test_many_candidates_score_as_those_that_are_learned_from(
    network: Network, padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without gradients they are computed in another way, a few episodes at a time."""
    spec, batch, count = network.spec, 7, 40
    context = random_context(spec, batch, 5)
    if padded:
        mask = torch.arange(5) < torch.arange(batch)[:, None].clamp(1, 5)
        context = Context(context.designs, context.outcomes, mask)
    point = {name: [0.1] for name in spec.design.names}
    candidates = spec.design.sample(batch, count, seeded(1))
    monkeypatch.setattr("aline.model.policy.AT_ONCE", 3 * count)
    network.policy.requires_grad_(True)
    try:
        for target in (
            spec.parameters.names[:1],
            [spec.parameters.names[0], predictions(at=point)],
        ):
            goal = goal_of(spec, target).repeat(batch)
            learned = scores_of(network, network.encode(context), goal, candidates)
            assert learned.requires_grad
            with torch.no_grad():
                many = scores_of(network, network.encode(context), goal, candidates)
            assert torch.allclose(many, learned, rtol=1e-6, atol=TOLERANCE)
    finally:
        network.policy.requires_grad_(False)


@EVERY
@few
@given(seed=seeds, count=st.integers(2, 10))
def test_predictions_do_not_see_each_other(network: Network, seed: int, count: int) -> None:
    encoded = network.encode(random_context(network.spec, 2, 5, seed))
    points = network.spec.design.sample(2, count, seeded(seed))
    together = network.predictive(encoded, points)[:, :, :1]
    first = network.predictive(encoded, points[:, :1])
    assert largest_difference(everything(together), everything(first)) < TOLERANCE


@EVERY
def test_both_beliefs_at_once_are_each_alone(network: Network) -> None:
    encoded = network.encode(random_context(network.spec, 2, 5))
    points = network.spec.design.sample(2, 4, seeded(0))
    guesses, predictive = network.beliefs(encoded, points)
    alone = network.posterior(encoded), network.predictive(encoded, points)
    for a, b in zip((guesses[-1].marginals, predictive), alone, strict=True):
        assert largest_difference(everything(a), everything(b)) < TOLERANCE


@EVERY
def test_the_goal_changes_the_policy_and_never_the_posterior(network: Network) -> None:
    spec = network.spec
    context = random_context(spec, 1, 6)
    candidates = spec.design.sample(1, 10, seeded(1))
    at = {name: [0.5] for name in spec.design.names}
    goals: list[Goal] = [
        goal_of(spec, [spec.parameters.names[0]]),
        goal_of(spec, [spec.parameters.names[1]]),
        goal_of(spec, list(spec.parameters.names)),
        goal_of(spec, [predictions(at=at)]),
        goal_of(spec, [spec.parameters.names[0], predictions(at=at)]),
    ]
    before = posterior(network, context)
    scores = []
    for goal in goals:
        encoded = network.encode(context)
        scores.append(scores_of(network, encoded, goal, candidates))
        assert torch.equal(everything(network.posterior(encoded)), before)
    for i, one in enumerate(scores):
        for other in scores[:i]:
            assert largest_difference(one, other) > 1e-4


@EVERY
def test_padded_targets_do_not_matter(network: Network) -> None:
    spec = network.spec
    goal = goal_of(spec, [spec.parameters.names[0]])
    rubbish = Goal(
        goal.parameters, torch.full((1, 3, len(spec.design)), 5.0), torch.zeros(1, 3) > 0
    )
    encoded = network.encode(random_context(spec, 1, 6))
    candidates = spec.design.sample(1, 10, seeded(1))
    plain, padded = (scores_of(network, encoded, each, candidates) for each in (goal, rubbish))
    assert largest_difference(plain, padded) < TOLERANCE


def grown(network: Network, encoded: Encoded, context: Context, start: int) -> Encoded:
    """With the rest of a context, one observation after the other."""
    for step in range(start, context.length):
        encoded = network.extend(encoded, context.designs[:, step], context.outcomes[:, step])
    return encoded


@EVERY
@few
@given(length=st.integers(0, 10), seed=seeds)
def test_extending_equals_reading_the_whole(network: Network, length: int, seed: int) -> None:
    context = random_context(network.spec, 3, length + 2, seed)
    goal = goal_for(network.spec, network.spec.parameters.names[:1], 3)
    candidates = network.spec.design.sample(3, 4, seeded(seed))
    whole = network.encode(context)
    first = Context(context.designs[:, :length], context.outcomes[:, :length])
    for start, encoded in ((length, network.encode(first)), (0, network.begin(3))):
        more = grown(network, encoded, context, start)
        for a, b in zip(more.keys, whole.keys, strict=True):
            assert largest_difference(a.values, b.values) < TOLERANCE
        posteriors = [everything(network.posterior(each)) for each in (more, whole)]
        assert largest_difference(*posteriors) < TOLERANCE
        scores = [scores_of(network, each, goal, candidates) for each in (more, whole)]
        assert largest_difference(*scores) < TOLERANCE
        assert torch.equal(more.context.designs, context.designs)


@EVERY
def test_extending_a_padded_context(network: Network) -> None:
    context = random_context(network.spec, 2, 4)
    mask = torch.tensor([[True, True, True, False], [True, False, True, True]])
    masked = Context(context.designs, context.outcomes, mask)
    new = random_context(network.spec, 2, 1, seed=5)
    more = network.extend(network.encode(masked), new.designs[:, 0], new.outcomes[:, 0])
    whole = posterior(network, masked.append(new.designs[:, 0], new.outcomes[:, 0]))
    assert torch.equal(everything(network.posterior(more)), whole)


@EVERY
@few
@given(seed=seeds)
def test_groups_equal_separate_reads(network: Network, seed: int) -> None:
    """Prefixes, as training reads them, and any other parts of a context."""
    context = random_context(network.spec, 2, 7, seed)
    visible = torch.rand(2, 4, 7, generator=seeded(seed)) < 0.6
    visible[:, 0] = False
    visible[:, 1] = torch.arange(7) < 3
    points = network.spec.design.sample(2, 8, seeded(seed)).view(2, 4, 2, -1)
    goal = goal_for(network.spec, network.spec.parameters.names[:1], 2)
    encoded = network.regroup(network.encode(context), visible)
    together = [network.posterior(encoded), network.predictive(encoded, points)]
    scores = scores_of(network, encoded, goal, points)
    for group in range(4):
        alone = network.encode(Context(context.designs, context.outcomes, visible[:, group]))
        apart = [network.posterior(alone), network.predictive(alone, points[:, group])]
        for a, b in zip(together, apart, strict=True):
            mine = everything(a[:, group : group + 1])
            assert largest_difference(mine, everything(b)) < TOLERANCE
        theirs = scores_of(network, alone, goal, points[:, group])
        assert largest_difference(scores[:, group : group + 1], theirs) < TOLERANCE


@EVERY
def test_points_of_all_groups_are_those_of_each(network: Network) -> None:
    context = random_context(network.spec, 2, 5)
    visible = torch.rand(2, 3, 5, generator=seeded(0)) < 0.5
    points = network.spec.design.sample(2, 4, seeded(0))
    each = points[:, None].expand(-1, 3, -1, -1)
    goal = goal_for(network.spec, network.spec.parameters.names[:1], 2)
    encoded = network.regroup(network.encode(context), visible)
    beliefs = [everything(network.predictive(encoded, part)) for part in (points, each)]
    assert largest_difference(*beliefs) < TOLERANCE
    scores = [scores_of(network, encoded, goal, part) for part in (points, each)]
    assert largest_difference(*scores) < TOLERANCE


@EVERY
def test_padding_stays_hidden_from_groups(network: Network) -> None:
    context = random_context(network.spec, 2, 5)
    mask = torch.tensor([[True, True, True, False, False], [True] * 5])
    visible = torch.arange(5) < torch.tensor([[2, 5], [2, 5]])[..., None]
    padded = network.encode(Context(context.designs, context.outcomes, mask))
    plain = network.encode(context)
    found = network.posterior(network.regroup(padded, visible))
    wanted = network.posterior(network.regroup(plain, visible & mask[:, None]))
    assert largest_difference(everything(found), everything(wanted)) < TOLERANCE


@EVERY
@pytest.mark.parametrize("limited", [False, True])
def test_private_observations_equal_appended_ones(network: Network, limited: bool) -> None:
    context = random_context(network.spec, 2, 5)
    extra = random_context(network.spec, 6, 2, seed=1)
    visible = torch.ones(2, 3, 5, dtype=torch.bool)
    if limited:
        visible = torch.rand(2, 3, 5, generator=seeded(0)) < 0.5
    together = network.posterior(network.regroup(network.encode(context), visible, extra))
    for episode in range(2):
        for group in range(3):
            row, seen = 3 * episode + group, visible[episode, group]
            appended = Context(
                torch.cat([context.designs[episode, seen], extra.designs[row]])[None],
                torch.cat([context.outcomes[episode, seen], extra.outcomes[row]])[None],
            )
            mine = everything(together[episode : episode + 1, group : group + 1])
            assert largest_difference(mine, posterior(network, appended)) < TOLERANCE


def test_private_observations_are_not_silently_dropped() -> None:
    network = NETWORKS["independent", "psychometric"]
    visible, extra = torch.ones(1, 1, 3) > 0, random_context(network.spec, 1, 1)
    encoded = network.regroup(network.encode(random_context(network.spec, 1, 3)), visible, extra)
    goal = goal_of(network.spec, ["slope"])
    with pytest.raises(InternalError, match="one group alone has made"):
        scores_of(network, encoded, goal, torch.zeros(1, 2, 1))
    with pytest.raises(InternalError, match="without observations of its own"):
        network.extend(encoded, torch.zeros(1, 1), torch.ones(1))


@EVERY
def test_replaced_observations_are_those_of_another_context(network: Network) -> None:
    """And what was left in its place passes no gradient."""
    context = random_context(network.spec, 3, 6)
    steps = torch.tensor([[0, 4], [2, 5], [1, 3]])
    new = random_context(network.spec, 3, 2, seed=1)
    rows = torch.arange(3)[:, None]
    designs, outcomes = context.designs.clone(), context.outcomes.clone()
    designs[rows, steps], outcomes[rows, steps] = new.designs, new.outcomes
    replaced = network.replaced(network.encode(context), steps, new)
    found = everything(network.posterior(replaced))
    assert largest_difference(found, posterior(network, Context(designs, outcomes))) < TOLERANCE
    assert torch.equal(replaced.context.designs, designs)


@EVERY
def test_nothing_measured_has_an_answer(network: Network) -> None:
    nothing = Context.empty(2, len(network.spec.design))
    for numbers in both(network, nothing, torch.zeros(2, 3, len(network.spec.design))):
        assert bool(numbers.isfinite().all())


def test_the_policy_learns_to_read_a_context_that_was_read_without_gradients() -> None:
    """What playing keeps for the policy must not serve a loss."""
    network = fresh(get("psychometric").spec, ModelConfig(**SIZES), seeded(0))
    context, goal = random_context(network.spec, 2, 5), goal_for(network.spec, ("slope",), 2)
    candidates = network.spec.design.sample(2, 4, seeded(1))

    def gradient(played: bool) -> Tensor:
        network.zero_grad()
        with torch.no_grad():
            start = network.begin(2)
            encoded = grown(network, start, context, 0) if played else network.encode(context)
            assert (encoded.policy_keys is not None) is played
        scores_of(network, encoded, goal, candidates).square().sum().backward()
        weight = network.policy.layers[0].key_value.weight
        assert weight.grad is not None
        return weight.grad.clone()

    assert bool(gradient(played=False).any())
    assert torch.allclose(gradient(played=True), gradient(played=False), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("context", ["independent", "full"])
def test_the_policys_loss_never_reaches_the_posterior(context: str) -> None:
    config = ModelConfig(context=context, **SIZES)  # type: ignore[arg-type]
    network = fresh(get("psychometric").spec, config, seeded(0))
    encoded = network.encode(random_context(network.spec, 2, 5))
    goal = goal_for(network.spec, ("slope",), 2)
    scores_of(network, encoded, goal, torch.zeros(2, 3, 1)).sum().backward()
    reached = {n.split(".")[0] for n, p in network.named_parameters() if p.grad is not None}
    assert reached == {"policy"}


def test_a_box_policy_proposes_a_point_of_the_box() -> None:
    network = small_network("location", policy="box")
    goal = goal_for(network.spec, ("source_x",), 3)
    encoded = network.encode(random_context(network.spec, 3, 4))
    proposal = network.propose(encoded, network.summary(encoded), goal)
    assert proposal.mean.shape == proposal.log_std.shape == (3, 1, 2)
    assert bool((proposal.mean.abs() <= 1).all())


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"width": 30, "heads": 4}, "width must be a multiple of heads, got width 30 and 4 heads"),
        ({"guesses": 2, "newton_steps": 2}, "search_stages and newton_steps=1, got 0 and 2"),
        ({"zoom_layers": 1, "shortcuts": False}, "zoom_layers need shortcuts and a width"),
        ({"zoom_layers": 1, "width": 36}, "got width 36 and 4 heads"),
        ({"policy_layers": 4}, r"policy_layers must lie in \[1, layers = 3\], got 4"),
    ],
)
def test_impossible_sizes(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ModelConfig(**sizes)  # type: ignore[arg-type]
