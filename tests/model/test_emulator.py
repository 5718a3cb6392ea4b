"""What a learned likelihood says near a guess, against closed forms."""

import torch
from small import seeded, small_network

from aline.episodes import Context
from aline.model.advice import Frame
from aline.model.evidence import Evidence, inverse, points_around

NOISE, TRIALS = 0.4, 6


def linear_evidence(guess: Frame) -> tuple[Evidence, torch.Tensor, torch.Tensor]:
    """Evidence of lines y = a + b x with exact likelihoods; their exact posterior."""
    x = torch.linspace(-1, 1, TRIALS)
    rows = torch.stack([torch.ones(TRIALS), x], -1)
    y = rows @ torch.tensor([0.7, -1.2]) + 0.1 * x.square()
    mean = points_around(guess) @ rows.T
    evidence = Evidence.of(-0.5 * ((y - mean) / NOISE).square(), guess, None)
    covariance = torch.linalg.inv(torch.eye(2) + rows.T @ rows / NOISE**2)
    return evidence, covariance @ (rows.T @ y) / NOISE**2, covariance


def test_one_step_finds_a_gaussian_posterior() -> None:
    guess = Frame(torch.tensor([[[0.5, -1.0]]]), torch.tensor([[[0.2, 0.3]]]))
    evidence, mean, covariance = linear_evidence(guess)
    step = evidence.step()
    found = guess.mean + guess.std * step.mean
    torch.testing.assert_close(found[0, 0], mean, rtol=1e-3, atol=1e-3)
    spread = covariance.diagonal().sqrt()
    torch.testing.assert_close((guess.std * step.std)[0, 0], spread, rtol=1e-3, atol=1e-3)


def test_a_known_parameter_moves_the_other() -> None:
    """As the conditional of a normal distribution says."""
    guess = Frame(torch.tensor([[[0.5, -1.0]]]), torch.tensor([[[0.2, 0.3]]]))
    evidence, mean, covariance = linear_evidence(guess)
    intercept = mean[0] + 0.2
    known = torch.tensor([[[[(intercept - 0.5) / 0.2, 0.0]]]])
    mask = torch.tensor([[[[True, False]]]])
    found = evidence.conditional(known, mask, torch.tensor([[[1]]]))
    slope = mean[1] + covariance[0, 1] / covariance[0, 0] * 0.2
    variance = covariance[1, 1] - covariance[0, 1] ** 2 / covariance[0, 0]
    assert abs(float(-1.0 + 0.3 * found.mean) - float(slope)) < 1e-3
    assert abs(float(0.3 * found.std) - float(variance.sqrt())) < 1e-3


def test_without_data_the_prior_is_the_evidence() -> None:
    guess = Frame(torch.tensor([[[0.4, 0.0]]]), torch.tensor([[[0.8, 1.0]]]))
    evidence = Evidence.of(torch.zeros(1, 1, 5, 0), guess, None)
    step = evidence.step()
    torch.testing.assert_close(guess.mean + guess.std * step.mean, torch.zeros(1, 1, 2))
    torch.testing.assert_close(guess.std * step.std, torch.ones(1, 1, 2))


def test_the_inverse_of_small_matrices() -> None:
    root = torch.randn(50, 4, 4, generator=seeded(0))
    matrix = root @ root.mT + 0.1 * torch.eye(4)
    found, log_determinant = inverse(matrix)
    torch.testing.assert_close(found, torch.linalg.inv(matrix), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(log_determinant, matrix.logdet(), rtol=1e-3, atol=1e-3)


def test_groups_have_the_evidence_of_what_they_see() -> None:
    """A prefix, and a prefix with an observation of its own, as if they were all there is."""
    network = small_network("linear")
    generator = seeded(1)
    designs = 2 * torch.rand(3, 4, 1, generator=generator) - 1
    outcomes = torch.randn(3, 4, generator=generator)
    whole = network.encode(Context(designs, outcomes))
    visible = torch.tensor([[True, True, False, False]]).expand(3, 1, 4)
    extra = Context(designs[:, 3:], outcomes[:, 3:])
    kept = [0, 1, 3]
    alone = network.encode(Context(designs[:, kept], outcomes[:, kept]))
    guess = Frame(torch.zeros(3, 1, 1, 2), torch.ones(3, 1, 1, 2))
    found = network.evidence(network.regroup(whole, visible, extra), guess)
    for mine, theirs in zip(found, network.evidence(alone, guess), strict=True):
        torch.testing.assert_close(mine, theirs)
