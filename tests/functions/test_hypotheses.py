"""Hypotheses about a Gaussian process's own parameters, against the exact posterior on a grid."""

import math

import pytest
import torch
from processes import kernel
from small import seeded
from torch import Tensor

from aline.episodes import Context
from aline.functions.ensemble import Posterior
from aline.functions.hypotheses import Hypotheses, ParameterPosterior
from aline.functions.kernels import KINDS
from aline.functions.task import NOISE
from aline.tasks import get
from aline.tasks.task import SimulatedWorld

TASK = get("gp1d")
SPEC = TASK.spec


def hypotheses(count: int = 128) -> Hypotheses:
    return Hypotheses(SPEC, count)


def played(batch: int, count: int) -> tuple[SimulatedWorld, Context]:
    world = TASK.draw(batch, seeded(1))
    assert isinstance(world, SimulatedWorld)
    designs = SPEC.design.sample(batch, count, seeded(2))
    return world, Context(designs, world.answer(designs, seeded(3)))


def posterior_of(context: Context, count: int = 128) -> ParameterPosterior:
    made = hypotheses(count)
    return made.posterior(made.read(context))


def exact(context: Context) -> tuple[Tensor, Tensor]:
    """Means and deviations [batch, parameter] of the posterior, by a dense grid of all."""
    share = (torch.arange(32) + 0.5) / 32
    z = torch.cartesian_prod(*[torch.special.ndtri(share)] * 2).double()
    user = SPEC.parameters.to_user(z)
    x = SPEC.design.to_user(context.designs.double())
    y = SPEC.outcome.to_user(context.outcomes.double())
    distance = (x - x.mT).abs()[:, None] / user["lengthscale"][:, :, None]
    fits = []
    for kind in range(len(KINDS)):
        matrix = user["output_scale"][:, None, None] ** 2 * kernel(kind, distance)
        matrix.diagonal(dim1=-2, dim2=-1).add_(NOISE**2)
        factor = torch.linalg.cholesky(matrix)
        white = torch.linalg.solve_triangular(
            factor, y[:, None, :, None].expand(*factor.shape[:3], 1), upper=False
        )
        root = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        fits.append(-0.5 * white.square().sum((-1, -2)) - root)
    weight = torch.stack(fits).logsumexp(0).softmax(-1)
    mean = weight @ z
    return mean, (weight @ z.square() - mean.square()).sqrt()


def test_without_data_the_posterior_is_the_prior() -> None:
    found = posterior_of(Context.empty(2, 1))
    assert torch.equal(found.power, torch.ones_like(found.power))
    assert torch.allclose(found.mean, torch.zeros_like(found.mean), atol=0.05)
    assert torch.allclose(found.std, torch.ones_like(found.std), atol=0.07)


def test_all_hypotheses_at_full_power_are_the_exact_posterior() -> None:
    """With few data no power is needed, and the hypotheses are an even grid of the prior."""
    _, context = played(40, 2)
    found = posterior_of(context)
    mean, std = exact(context)
    plain = found.power[:, 0, 0] == 1
    assert int(plain.sum()) > 20
    assert float((found.mean[:, 0] - mean)[plain].abs().mean()) < 0.1
    assert float((found.std[:, 0] / std)[plain].log().abs().mean()) < 0.1


def test_it_is_near_the_exact_posterior_after_many_data() -> None:
    _, context = played(24, 16)
    found = posterior_of(context, 48)
    mean, std = exact(context)
    # In units of the posterior's own deviation: of no use would be about 2.
    assert float(((found.mean[:, 0] - mean) / std).abs().mean()) < 0.25
    assert float((found.std[:, 0] / std).log().abs().mean()) < 0.15


def test_growing_and_prefixes_are_reading() -> None:
    made = hypotheses(24)
    _, context = played(3, 6)
    whole = made.posterior(made.read(context))
    grown: Posterior = made.read(Context.empty(3, 1))
    for step in range(6):
        grown = grown.extend(context.designs[:, step], context.outcomes[:, step])
    for mine, theirs in zip(whole, made.posterior(grown), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-3)
    lengths = torch.tensor([2, 6])
    visible = (torch.arange(6) < lengths[:, None]).expand(3, -1, -1)
    split = made.posterior(made.read(context).prefixes(visible))
    short = Context(context.designs[:, :2], context.outcomes[:, :2])
    assert torch.allclose(split.mean[:, 1:], whole.mean, atol=1e-3)
    found = made.posterior(made.read(short)).mean
    assert torch.allclose(split.mean[:, :1], found, atol=1e-4)
    assert found.shape == (3, 1, 2)


def test_information_about_parameters() -> None:
    """Where it was measured just now an outcome says little; of all parameters, most."""
    made = hypotheses()
    _, context = played(30, 10)
    state = made.read(context)
    again, new = context.designs[:, -1:], SPEC.design.sample(30, 40, seeded(4))
    both, first = torch.tensor([True, True]), torch.tensor([True, False])
    nats = made.log_information_gain(state, new, both.expand(30, 2)).exp()
    repeated = made.log_information_gain(state, again, both.expand(30, 2)).exp()
    assert nats.shape == (30, 1, 40)
    assert float(repeated.mean()) < 0.3 * float(nats.amax(-1).mean())
    one = made.log_information_gain(state, new, first.expand(30, 2)).exp()
    assert bool((one <= nats * 1.001 + 1e-6).all())
    assert float(one.mean()) > 0.3 * float(nats.mean())


def test_it_is_what_the_exact_gain_is_on_average() -> None:
    """The fall of the exact posterior's log deviations, over many outcomes, by the best tenth."""
    made = hypotheses()
    world, context = played(48, 8)
    offers = SPEC.design.sample(48, 30, seeded(5))
    wanted = torch.ones(48, 2, dtype=torch.bool)
    nats = made.log_information_gain(made.read(context), offers, wanted)[:, 0]
    rows = torch.arange(48)
    gains = []
    for pick in (nats.argmax(1), nats.argmin(1)):
        design = offers[rows, pick][:, None]
        more = Context(
            torch.cat([context.designs, design], 1),
            torch.cat([context.outcomes, world.answer(design, seeded(6))], 1),
        )
        gains.append((exact(context)[1] / exact(more)[1]).log().sum(1))
    best, worst = gains
    error = (best - worst).std() / math.sqrt(48)
    assert float((best - worst).mean()) > 3 * float(error)


def test_a_large_batch_is_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    made = hypotheses(24)
    _, context = played(5, 4)
    offers, wanted = SPEC.design.sample(5, 7, seeded(4)), torch.ones(5, 2).bool()
    whole = made.log_information_gain(made.read(context), offers, wanted)
    monkeypatch.setattr("aline.functions.hypotheses.AT_ONCE", 2 * 24 * 7 * 4)
    parts = made.log_information_gain(made.read(context), offers, wanted)
    assert torch.allclose(parts, whole, atol=1e-4)


def test_a_long_episode_is_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand observations took two gigabytes."""
    _, context = played(1, 120)
    made, wanted = hypotheses(), torch.ones(1, 2, dtype=torch.bool)
    candidates = SPEC.design.sample(1, 30, seeded(4))
    whole = made.read(context)
    assert whole.which is None
    gain, found = made.log_information_gain(whole, candidates, wanted), made.posterior(whole)
    monkeypatch.setattr("aline.functions.ensemble.AT_ONCE", 120**2 * 5)
    monkeypatch.setattr("aline.functions.importance_draws.AT_ONCE", 120**2 * 7)
    monkeypatch.setattr("aline.functions.hypotheses.OF_ONE", 128 * 120 * 16)
    parts = made.read(context)
    torch.testing.assert_close(parts.factor, whole.factor)
    torch.testing.assert_close(made.posterior(parts).mean, found.mean)
    in_parts = made.log_information_gain(parts, candidates, wanted)
    torch.testing.assert_close(in_parts, gain, atol=0.02, rtol=0)  # logs, in single precision
    assert not parts.memory.known


def test_of_a_long_episode_only_the_likely_hypotheses_are_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, context = played(1, 120)
    made, wanted = hypotheses(), torch.ones(1, 2, dtype=torch.bool)
    candidates = SPEC.design.sample(1, 30, seeded(4))
    whole = made.read(context)
    monkeypatch.setattr("aline.functions.hypotheses.HELD", 120**2 * 40)
    few = made.read(context)
    assert few.factor.shape[1] == 40
    all_found, found = made.posterior(whole), made.posterior(few)
    torch.testing.assert_close(found.mean, all_found.mean, atol=0.02, rtol=0)
    torch.testing.assert_close(found.std, all_found.std, atol=0.02, rtol=0)
    gains = [made.log_information_gain(one, candidates, wanted) for one in (whole, few)]
    torch.testing.assert_close(gains[1], gains[0], atol=0.3, rtol=0)  # of logs from -9 to -1
    grown = few.extend(context.designs[:, 0], context.outcomes[:, 0])
    assert made.log_likelihood(grown).shape[-1] == 40
