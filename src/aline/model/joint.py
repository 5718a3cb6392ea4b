"""The joint posterior: every parameter given the data and the values of any others.

By the chain rule, in any order, these conditionals are a joint density, and draws one parameter
after the other have the dependence in them. A conditional is in units of the marginal
posterior, and so are the values that it is given: however narrow the posterior is, what one
parameter says about another is then a matter of numbers near one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from aline.model.advice import Frame
from aline.model.config import ModelConfig
from aline.model.evidence import Evidence
from aline.model.guesses import Guesses
from aline.model.newton import FIRST_TRUST, trusted_mixture
from aline.model.tokens import Mlp, octaves_of
from aline.spaces.outcomes.mixture import STD_FLOOR, Mixture, mixture_start, read_mixture

if TYPE_CHECKING:
    from aline.model.encoder import Encoded
    from aline.model.inference import Inference

FAR = 8.0  # marginal standard deviations beyond which a value is as good as any other
WIDE = 3.0  # prior standard deviations that count as the whole range of a parameter


class Known(NamedTuple):
    """Values of parameters that a question takes as given, on the network's scale."""

    values: Tensor  # [batch, group, question, parameter]
    mask: Tensor  # bool, the same: which of them are given


class Conditional(nn.Module):
    """Puts known values into a parameter's token, and makes a belief of what comes back."""

    def __init__(self, parameters: int, read: int, config: ModelConfig):
        super().__init__()
        self.octaves = config.octaves
        known = parameters * (3 + 2 * config.octaves)
        # Without biases: where nothing is known, nothing is added.
        self.embed = nn.Sequential(
            nn.Linear(known, config.feedforward, bias=False),
            nn.ReLU(),
            nn.Linear(config.feedforward, config.width, bias=False),
        )
        inputs = config.width + read + 3 * parameters
        start = mixture_start(config.components, read)
        if config.newton_steps:  # then it is laid out around a guess, which it also sees
            inputs += 2
            start = torch.cat([mixture_start(config.components, 0), FIRST_TRUST])
        self.head = Mlp(inputs, config.feedforward, len(start))
        with torch.no_grad():
            self.head.second.bias.copy_(start)
            self.head.second.weight.mul_(0.3)

    def away(self, known: Known, marginals: Frame) -> Tensor:
        """Known values in units of the marginal posteriors."""
        away = (known.values - marginals.mean[:, :, None]) / marginals.std[:, :, None]
        return away.clamp(-FAR, FAR)

    def relative(self, known: Known, marginals: Frame) -> Tensor:
        """Known values as the marginal posteriors see them, [..., 3 * parameter]."""
        away = self.away(known, marginals)
        bent = away * (1 + away * away).rsqrt()
        given = known.mask.to(away.dtype)
        return torch.cat([given, given * bent, given * away / 3], -1)

    def tokens(self, known: Known, relative: Tensor) -> Tensor:
        """What known values add to a parameter's token."""
        given = known.mask.repeat_interleave(self.octaves, -1)
        absolute = octaves_of(known.values / WIDE, self.octaves) * torch.cat([given, given], -1)
        out: Tensor = self.embed(torch.cat([relative, absolute], -1))
        return out

    def belief(
        self,
        tokens: Tensor,
        read: Tensor,
        zoom: Tensor | None,
        relative: Tensor,
        own: Frame,
        guess: Frame | None,
    ) -> Mixture:
        """Of decoded tokens, in units of each parameter's own marginal posterior, as `guess` is."""
        mean, std = own.mean[..., None], own.std[..., None]
        near = ((read - mean) / std).clamp(-FAR, FAR)
        seen = [tokens, near * (1 + near * near).rsqrt(), relative]
        if guess is None:
            zoom = None if zoom is None else zoom - std.log()
            return read_mixture(self.head(torch.cat(seen, -1)), near, zoom).moved(*own)
        seen.append(torch.stack([guess.mean, guess.std.log()], -1))
        return trusted_mixture(self.head(torch.cat(seen, -1)), guess).moved(*own)


@dataclass(frozen=True)
class Joint:
    """The joint posterior of all parameters given data, on the network's scale.

    >>> from aline import load
    >>> network = load("psychometric").network
    >>> network.joint(network.begin(1)).sample(5, torch.Generator()).shape
    torch.Size([1, 1, 5, 4])
    """

    network: Inference
    encoded: Encoded
    guesses: Guesses

    @property
    def marginals(self) -> Mixture:
        """Of each parameter by itself, [batch, group, parameter]."""
        return self.guesses.marginals

    @cached_property
    def frame(self) -> Frame:
        """Means and standard deviations of the marginals."""
        mean, std = self.marginals.moments()
        return Frame(mean, std.clamp_min(STD_FLOOR))

    @cached_property
    def evidence(self) -> Evidence | None:
        """What a learned likelihood says of how parameters depend on each other."""
        if self.network.emulator is None:
            return None
        return self.network.evidence(self.encoded, self.around)

    @cached_property
    def around(self) -> Frame:
        """Where, and in which units, the evidence is."""
        return self.network.places_of(self.guesses)

    def guess_given(self, asked: Tensor, known: Known, own: Frame) -> Frame:
        """What the evidence says of parameters `asked` [batch, group, n], in units of `own`.

        Each guess says where they lie; known values say how likely each guess is.
        """
        assert self.evidence is not None
        around = self.around
        mean, std = (part[:, :, :, None] for part in around)
        away = ((known.values[:, :, None] - mean) / std).clamp(-FAR, FAR)
        at = asked[:, :, None].expand(*around.mean.shape[:3], -1)
        found = self.evidence.conditional(away, known.mask[:, :, None], at)
        place, unit = (part.gather(-1, at) for part in around)
        place, spread = place + unit * found.mean, unit * found.std
        weight = self.guesses.given(known.values, known.mask, asked).exp().detach()
        mean = (weight * place).sum(2)
        square = (weight * (spread.square() + (place - mean[:, :, None]).square())).sum(2)
        return Frame((mean - own.mean) / own.std, square.sqrt() / own.std)

    def _given(self, asked: Tensor, known: Known) -> Mixture:
        return self.network.given(self, asked, known)

    @torch.no_grad()
    def marginals_given(self, column: int, place: int) -> Mixture:
        """Of the first episode, all parameters [parameter] given a value of a discrete one."""
        size = len(self.network.spec.parameters)
        scale = self.network.spec.parameters.scales[column]
        values = torch.zeros(1, 1, size, size)
        values[..., column] = scale.to_network(torch.tensor(place))
        mask = torch.zeros(values.shape, dtype=torch.bool)
        mask[..., column] = True
        return self._given(torch.arange(size).expand(1, 1, -1), Known(values, mask))[0, 0]

    def log_prob(self, theta: Tensor, columns: Sequence[int] | None = None) -> Tensor:
        """Log density [batch, group, draw] of values theta [batch, group, draw, parameter].

        Only of the parameters with indices `columns`, if given.
        """
        order = torch.tensor(range(theta.shape[-1]) if columns is None else columns)
        return self.terms(theta, order.expand(*theta.shape[:3], -1)).sum(-1)

    def terms(self, theta: Tensor, order: Tensor) -> Tensor:
        """Log density of each parameter given those before it, [batch, group, draw, step].

        `order` [batch, group, draw, step] are the indices of all or some of the parameters. The
        sum over steps is their joint log density.
        """
        values = theta.gather(-1, order)
        if self.network.conditional is None or order.shape[-1] < 2:
            return _picked(self.marginals, order).log_prob(values)
        first = _picked(self.marginals, order[..., :1]).log_prob(values[..., :1])
        chosen = one_hot(order[..., :-1], theta.shape[-1])
        mask = chosen.cumsum(-2).bool().flatten(2, 3)
        known = Known(theta[..., None, :].expand(chosen.shape).flatten(2, 3), mask)
        later = self._given(order[..., 1:].flatten(2, 3), known)
        log_prob = later.log_prob(values[..., 1:].flatten(2, 3))
        return torch.cat([first, log_prob.view(values[..., 1:].shape)], -1)

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [batch, group, count, parameter], one parameter after the other."""
        drawn = self.marginals.sample(count, generator).movedim(0, 2)
        if self.network.conditional is None:
            return drawn
        mask = torch.zeros(drawn.shape, dtype=torch.bool)
        for column in range(1, drawn.shape[-1]):
            mask[..., column - 1] = True
            asked = torch.full(drawn.shape[:3], column)
            belief = self._given(asked, Known(drawn, mask))
            drawn[..., column] = belief.sample(1, generator)[0]
        return drawn


def random_orders(shape: tuple[int, ...], parameters: int, generator: torch.Generator) -> Tensor:
    """Orders of all parameters [*shape, parameter], each as likely as any other."""
    return torch.rand(*shape, parameters, generator=generator).argsort(-1)


def _picked(marginals: Mixture, order: Tensor) -> Mixture:
    """The marginals [batch, group, parameter] at indices [batch, group, draw, step]."""
    batch, groups = order.shape[:2]
    rows = torch.arange(batch).view(-1, 1, 1, 1), torch.arange(groups).view(1, -1, 1, 1)
    return marginals.each(lambda part: part[*rows, order])
