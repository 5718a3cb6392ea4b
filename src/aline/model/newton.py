"""Steps of Newton's method towards the posterior, as far as a head trusts them.

What is not Gaussian about the posterior is left to that head, in units of the step.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from aline.model.advice import Frame
from aline.model.evidence import FEATURES, LOWEST, Evidence
from aline.model.guesses import Guesses
from aline.model.tokens import Mlp
from aline.spaces.outcomes.mixture import Mixture, mixture_start, read_mixture

FIRST_TRUST = torch.tensor([-2.0])  # logit of the trust in an emulator that has learned nothing yet
COMPARED = 2  # more numbers that a head sees, where there are several guesses: how each compares


class NewtonStep(nn.Module):
    """Makes better guesses of the posterior from the evidence near each."""

    def __init__(self, width: int, hidden: int, components: int, guesses: int):
        super().__init__()
        self.guesses = guesses
        start = torch.cat([mixture_start(components, 0), FIRST_TRUST])
        compared = COMPARED if guesses > 1 else 0
        start = torch.cat([start, torch.zeros(compared)])
        self.head = Mlp(width + FEATURES + compared, hidden, len(start))
        with torch.no_grad():
            self.head.second.bias.copy_(start)
            self.head.second.weight.mul_(0.3)

    def forward(
        self, tokens: Tensor, evidence: Evidence, log_weight: Tensor, guess: Frame
    ) -> Guesses:
        """Of tokens [batch, group, parameter, embed]; guesses have log weights [..., guess]."""
        step = evidence.step()
        features = evidence.features(step)
        tokens = tokens[:, :, None].expand(*features.shape[:-1], -1)
        if self.guesses == 1:
            numbers = self.head(torch.cat([tokens, features], -1))
            return Guesses(log_weight, trusted_mixture(numbers, step).moved(*guess))
        seen, old = evidence.log_mass(step), log_weight.clamp_min(LOWEST)
        compared = torch.stack([seen, old], -1)[..., None, :].expand(*features.shape[:-1], -1)
        numbers = self.head(torch.cat([tokens, features, compared / 4], -1))
        trust, more = numbers[..., -COMPARED:].unbind(-1)
        share = (trust.sum(-1) / trust.shape[-1]).sigmoid()
        log_weight = torch.lerp(old, seen, share) + more.sum(-1)
        belief = trusted_mixture(numbers[..., :-COMPARED], step).moved(*guess)
        return Guesses(log_weight.log_softmax(-1), belief)


def trusted_mixture(numbers: Tensor, step: Frame) -> Mixture:
    """What a head's numbers mean in units of a step that it follows as far as it trusts it."""
    trust = numbers[..., -1].sigmoid()
    belief = read_mixture(numbers[..., :-1], numbers[..., :0])
    return belief.moved(trust * step.mean, (trust * step.std.log()).exp())
