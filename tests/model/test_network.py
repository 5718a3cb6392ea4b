"""What the network promises whatever its weights."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small import SIZES, goal_for, largest_difference, random_context, seeded, small_network
from torch import Tensor

from aline.episodes import Context, Goal, goal_of, predictions
from aline.errors import InputError, InternalError
from aline.model import Belief, Bernoulli, ModelConfig, Network, fresh
from aline.model.network import MANY
from aline.tasks import get

NETWORKS = {
    (context, task): small_network(task, context=context, looks=looks)
    for context in ("independent", "full")
    for task, looks in (("psychometric", 0), ("location", 2))
}
EVERY = pytest.mark.parametrize("network", NETWORKS.values(), ids=["-".join(k) for k in NETWORKS])
TOLERANCE = 1e-5
few = settings(max_examples=12, deadline=None)
lengths = st.integers(1, 12)
seeds = st.integers(0, 10_000)


def numbers(belief: Belief) -> Tensor:
    """Everything a belief says, in one tensor."""
    if isinstance(belief, Bernoulli):
        return belief.logit
    return torch.stack([belief.log_weight, belief.mean, belief.std])


def posterior(network: Network, context: Context) -> Tensor:
    return numbers(network.read(context).posterior())


def both(network: Network, context: Context, points: Tensor) -> list[Tensor]:
    view = network.read(context)
    return [numbers(view.posterior()), numbers(view.predictive(points[:, None]))]


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
    candidates = network.spec.design.sample(2, 4, seeded(seed))[:, None]
    plain = network.read(context).scores(candidates, goal)
    assert largest_difference(network.read(padded).scores(candidates, goal), plain) < TOLERANCE


@EVERY
@few
@given(length=st.integers(0, 8), seed=seeds, count=st.integers(2, 20))
def test_candidates_do_not_see_each_other(
    network: Network, length: int, seed: int, count: int
) -> None:
    view = network.read(random_context(network.spec, 2, length, seed))
    goal = goal_for(network.spec, network.spec.parameters.names[:1], 2)
    candidates = network.spec.design.sample(2, count, seeded(seed))[:, None]
    together = view.scores(candidates, goal)
    alone = torch.cat([view.scores(candidates[:, :, i : i + 1], goal) for i in range(count)], -1)
    assert largest_difference(together, alone) < TOLERANCE
    assert float(together.std()) > 1e-3


@pytest.mark.parametrize(
    "network",
    [*NETWORKS.values(), fresh(get("gp1d").spec, ModelConfig(kernels=3, **SIZES), seeded(0))],
    ids=["-".join(k) for k in [*NETWORKS, ("kernels",)]],
)
@pytest.mark.parametrize("padded", [False, True])
def test_many_candidates_score_as_few_do(
    network: Network, padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a number of candidates, and of episodes, they are computed in another way."""
    spec, batch, count = network.spec, 7, MANY + 6
    context = random_context(spec, batch, 5)
    if padded:
        mask = torch.arange(5) < torch.arange(batch)[:, None].clamp(1, 5)
        context = Context(context.designs, context.outcomes, mask)
    point = {name: [0.1] for name in spec.design.names}
    candidates = spec.design.sample(batch, count, seeded(1))[:, None]
    monkeypatch.setattr("aline.model.network.AT_ONCE", 3 * count)
    with torch.no_grad():
        view = network.read(context)
        for target in (
            spec.parameters.names[:1],
            [spec.parameters.names[0], predictions(at=point)],
        ):
            goal = goal_of(spec, target).repeat(batch)
            many = view.scores(candidates, goal)
            parts = [view.scores(part, goal) for part in candidates.split(MANY // 2, 2)]
            few = torch.cat(parts, -1)
            # What a candidate is worth counts twentyfold: scores may be large.
            assert torch.allclose(many, few, rtol=1e-6, atol=TOLERANCE)
            shared = view.scores(candidates[:1], goal)
            assert largest_difference(shared[0], many[0]) < TOLERANCE


@EVERY
@few
@given(seed=seeds, count=st.integers(2, 10))
def test_predictions_do_not_see_each_other(network: Network, seed: int, count: int) -> None:
    view = network.read(random_context(network.spec, 2, 5, seed))
    points = network.spec.design.sample(2, count, seeded(seed))[:, None]
    together = numbers(view.predictive(points))
    first = numbers(view.predictive(points[:, :, :1]))
    kept = together[..., :1] if together.dim() == 3 else together[..., :1, :]
    assert largest_difference(kept, first) < TOLERANCE


@EVERY
def test_the_goal_changes_the_policy_and_never_the_posterior(network: Network) -> None:
    spec = network.spec
    context = random_context(spec, 1, 6)
    candidates = spec.design.sample(1, 10, seeded(1))[:, None]
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
        view = network.read(context)
        scores.append(view.scores(candidates, goal))
        assert torch.equal(numbers(view.posterior()), before)
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
    view = network.read(random_context(spec, 1, 6))
    candidates = spec.design.sample(1, 10, seeded(1))[:, None]
    plain, padded = view.scores(candidates, goal), view.scores(candidates, rubbish)
    assert largest_difference(plain, padded) < TOLERANCE


@EVERY
@few
@given(length=st.integers(0, 10), seed=seeds)
def test_extending_equals_reading_the_whole(network: Network, length: int, seed: int) -> None:
    context = random_context(network.spec, 3, length + 2, seed)
    goal = goal_for(network.spec, network.spec.parameters.names[:1], 3)
    candidates = network.spec.design.sample(3, 4, seeded(seed))[:, None]
    view = network.read(Context(context.designs[:, :length], context.outcomes[:, :length]))
    for step in (length, length + 1):
        view.scores(candidates, goal)  # fills what a view keeps for its successor
        view = view.extend(context.designs[:, step], context.outcomes[:, step])
    whole = network.read(context)
    assert largest_difference(numbers(view.posterior()), numbers(whole.posterior())) < TOLERANCE
    scores = [v.scores(candidates, goal) for v in (view, whole)]
    assert largest_difference(*scores) < TOLERANCE
    assert torch.equal(view.context.designs, context.designs)


@EVERY
def test_extending_a_padded_view(network: Network) -> None:
    context = random_context(network.spec, 2, 4)
    mask = torch.tensor([[True, True, True, False], [True, False, True, True]])
    masked = Context(context.designs, context.outcomes, mask)
    new = random_context(network.spec, 2, 1, seed=5)
    grown = network.read(masked).extend(new.designs[:, 0], new.outcomes[:, 0])
    whole = network.read(masked.append(new.designs[:, 0], new.outcomes[:, 0]))
    assert torch.equal(numbers(grown.posterior()), numbers(whole.posterior()))


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
    view = network.read(context, visible)
    together = [view.posterior(), view.predictive(points)]
    scores = view.scores(points, goal)
    for group in range(4):
        alone = network.read(Context(context.designs, context.outcomes, visible[:, group]))
        apart = [alone.posterior(), alone.predictive(points[:, group : group + 1])]
        for a, b in zip(together, apart, strict=True):
            mine = numbers(a)[..., group : group + 1, :]
            if not isinstance(a, Bernoulli):
                mine = numbers(a)[:, :, group : group + 1]
            assert largest_difference(mine, numbers(b)) < TOLERANCE
        theirs = alone.scores(points[:, group : group + 1], goal)
        assert largest_difference(scores[:, group : group + 1], theirs) < TOLERANCE


@EVERY
@pytest.mark.parametrize("limited", [False, True])
def test_private_observations_equal_appended_ones(network: Network, limited: bool) -> None:
    context = random_context(network.spec, 2, 5)
    extra = random_context(network.spec, 6, 2, seed=1)
    visible = torch.ones(2, 3, 5, dtype=torch.bool)
    if limited:
        visible = torch.rand(2, 3, 5, generator=seeded(0)) < 0.5
    view = network.read(context, visible if limited else None, extra)
    together = numbers(view.posterior())
    for episode in range(2):
        for group in range(3):
            row, seen = 3 * episode + group, visible[episode, group]
            appended = Context(
                torch.cat([context.designs[episode, seen], extra.designs[row]])[None],
                torch.cat([context.outcomes[episode, seen], extra.outcomes[row]])[None],
            )
            alone = posterior(network, appended)[:, 0, 0]
            assert largest_difference(together[:, episode, group], alone) < TOLERANCE


def test_a_view_does_not_silently_drop_private_observations() -> None:
    network = NETWORKS["independent", "psychometric"]
    view = network.read(
        random_context(network.spec, 1, 3), None, random_context(network.spec, 1, 1)
    )
    goal = goal_of(network.spec, ["slope"])
    with pytest.raises(InternalError, match="private"):
        view.scores(torch.zeros(1, 1, 2, 1), goal)
    with pytest.raises(InternalError, match="private"):
        view.extend(torch.zeros(1, 1), torch.ones(1))


@EVERY
def test_chosen_parameters_are_those_of_the_whole_posterior(network: Network) -> None:
    view = network.read(random_context(network.spec, 2, 4))
    index = torch.tensor([[1, 0], [0, 1]])
    whole, part = view.posterior(), view.posterior(index)
    rows = index[:, None, :, None].expand(-1, 1, -1, whole.mean.shape[-1])
    assert largest_difference(whole.mean.gather(2, rows), part.mean) < TOLERANCE


@EVERY
def test_nothing_measured_has_an_answer(network: Network) -> None:
    view = network.read(Context.empty(2, len(network.spec.design)))
    assert numbers(view.posterior()).isfinite().all()
    assert numbers(view.predictive(torch.zeros(2, 1, 3, len(network.spec.design)))).isfinite().all()


def test_the_policy_learns_to_read_the_context_after_it_was_read_without_gradients() -> None:
    """What a view keeps from a pass without gradients must not serve a loss."""
    network = fresh(get("psychometric").spec, ModelConfig(**SIZES), seeded(0))
    context, goal = random_context(network.spec, 2, 5), goal_for(network.spec, ("slope",), 2)
    candidates = network.spec.design.sample(2, 4, seeded(1))[:, None]

    def gradient(warm: bool) -> Tensor:
        network.zero_grad()
        with torch.no_grad():
            view = network.read(context)
            if warm:
                view.scores(candidates, goal)
        view.scores(candidates, goal).square().sum().backward()
        weight = network.policy.layers[0].key_value.weight
        assert weight.grad is not None
        return weight.grad.clone()

    assert torch.allclose(gradient(warm=True), gradient(warm=False))


@pytest.mark.parametrize("context", ["independent", "full"])
def test_the_policys_loss_never_reaches_the_posterior(context: str) -> None:
    config = ModelConfig(context=context, **SIZES)  # type: ignore[arg-type]
    network = fresh(get("psychometric").spec, config, seeded(0))
    view = network.read(random_context(network.spec, 2, 5))
    goal = goal_for(network.spec, ("slope",), 2)
    view.scores(torch.zeros(2, 1, 3, 1), goal).sum().backward()
    reached = {n.split(".")[0] for n, p in network.named_parameters() if p.grad is not None}
    assert reached == {"policy"}


def test_a_box_policy_proposes_a_point_of_the_box() -> None:
    network = small_network("location", policy="box")
    goal = goal_for(network.spec, ("source_x",), 3)
    proposal = network.read(random_context(network.spec, 3, 4)).propose(goal)
    assert proposal.mean.shape == proposal.log_std.shape == (3, 1, 2)
    assert bool((proposal.mean.abs() <= 1).all())


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"width": 30, "heads": 4}, "width must be a multiple of heads, got width 30 and 4 heads"),
        ({"looks": 1, "shortcuts": False}, "looks need shortcuts and a width"),
        ({"looks": 1, "width": 36}, "got width 36 and 4 heads"),
        ({"policy_layers": 4}, r"policy_layers must lie in \[1, layers = 3\], got 4"),
    ],
)
def test_impossible_sizes(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ModelConfig(**sizes)  # type: ignore[arg-type]
