"""Priors that are chosen at run time."""

from dataclasses import replace

import torch

from aline.episodes import Context
from aline.model import ModelConfig, Network, fresh
from aline.model.advice import Frame
from aline.model.evidence import Evidence
from aline.model.prior import KNOWN, own_prior
from aline.tasks import get
from tests.small import SIZES, random_context, seeded


def network_with_priors() -> Network:
    config = ModelConfig(priors=True, **SIZES)  # type: ignore[arg-type]
    network = fresh(get("psychometric").spec, config, seeded(0)).eval().requires_grad_(False)
    for parameter in network.parameters():
        parameter.mul_(1.5)
    return network


def with_prior(context: Context, prior: torch.Tensor) -> Context:
    return replace(context, prior=prior)


def test_no_prior_is_the_tasks_own() -> None:
    network = network_with_priors()
    context = random_context(network.spec, batch=3, length=5)
    plain = network.posterior(network.encode(context))
    own = network.posterior(network.encode(with_prior(context, own_prior(3, 4))))
    torch.testing.assert_close(plain.mean, own.mean)
    torch.testing.assert_close(plain.std, own.std)


def test_a_known_value_is_where_the_posterior_lies() -> None:
    network = network_with_priors()
    context = random_context(network.spec, batch=3, length=5)
    prior = own_prior(3, 4).clone()
    prior[:, 2] = torch.tensor([0.7, KNOWN])
    mean, std = network.posterior(network.encode(with_prior(context, prior))).moments()
    # Even untrained, a posterior is told in units of its prior.
    assert (mean[:, 0, 2] - 0.7).abs().max() < 30 * KNOWN
    assert std[:, 0, 2].max() < 30 * KNOWN


def test_a_prior_changes_posteriors_predictions_and_scores_of_others() -> None:
    network = network_with_priors()
    context = random_context(network.spec, batch=2, length=5)
    prior = own_prior(2, 4).clone()
    prior[:, 3] = torch.tensor([-1.0, KNOWN])
    before, after = (network.encode(with_prior(context, p)) for p in (own_prior(2, 4), prior))
    points = torch.zeros(2, 1, 1)
    assert not torch.equal(network.posterior(before).mean[..., 0, :],
                           network.posterior(after).mean[..., 0, :])  # fmt: skip
    assert not torch.equal(
        *(network.predictive(one, points).outcomes()[1] for one in (before, after))
    )


def test_priors_stay_through_growing_and_regrouping() -> None:
    network = network_with_priors()
    whole = random_context(network.spec, batch=2, length=4)
    prior = torch.stack([torch.randn(2, 4, generator=seeded(1)), torch.full((2, 4), 0.3)], -1)
    encoded = network.begin(2, prior)
    for step in range(4):
        encoded = network.extend(encoded, whole.designs[:, step], whole.outcomes[:, step])
    at_once = network.encode(with_prior(whole, prior))
    torch.testing.assert_close(network.posterior(encoded).mean, network.posterior(at_once).mean)
    seen = torch.ones(2, 1, 4, dtype=torch.bool)
    grouped = network.regroup(at_once, seen)
    torch.testing.assert_close(network.posterior(grouped).mean, network.posterior(at_once).mean)


def test_without_data_newtons_step_leads_to_the_prior() -> None:
    guess = Frame(torch.tensor([[[0.2, 0.5]]]), torch.tensor([[[0.6, 0.2]]]))
    prior = Frame(torch.tensor([[[0.5, 0.4]]]), torch.tensor([[[0.5, 0.25]]]))
    step = Evidence.of(torch.zeros(1, 1, 5, 3), guess, prior).step()
    torch.testing.assert_close(guess.mean + guess.std * step.mean, prior.mean)
    torch.testing.assert_close(guess.std * step.std, prior.std)
