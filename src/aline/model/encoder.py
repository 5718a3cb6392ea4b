"""The first part of the network: a context comes in.

Axes: an episode's context may be read by several groups at once, each seeing a part of it (its
prefixes, say), so results come as [batch, group, ...].
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aline.episodes import Context
from aline.errors import InternalError
from aline.model.advice import Advice, Frame, advisor_for
from aline.model.attention import Keys, Layers, bias_of
from aline.model.config import ModelConfig
from aline.model.evidence import Searched
from aline.model.tokens import DesignEmbedder, Mlp, RawNumbers
from aline.tasks import Spec


@dataclass(frozen=True)
class Encoded:
    """A context as the network holds it.

    A row is an episode or, where observations attend to each other, a group of one.
    """

    shape: tuple[int, int]  # batch, group, as the caller sees them
    context: Context
    hidden: list[Tensor]  # a layer: [row, 1 + context, embed]
    keys: list[Keys]  # a layer, as the inference half reads them
    advice: Advice
    bias: Tensor | None = None  # [row, 1, group, 1, 1 + context]; None where everything is seen
    own: list[Keys] | None = None  # a layer: of observations that one group alone has made
    extra: Context | None = None  # these observations, [batch * group, n, ...]
    policy_keys: list[Keys] | None = None  # as the policy reads them, where that is kept
    is_expanded: bool = False  # whether each group is a row
    searched: Searched | None = None  # where a search for the posterior ended, if one was made

    @property
    def prior(self) -> Frame | None:
        """Priors [batch, group or 1, parameter] chosen for an experiment."""
        if self.context.prior is None:
            return None
        # A number of groups that is inferred is unknown to an export.
        groups = self.shape[1] if self.is_expanded else 1
        return Frame(*self.context.prior.unflatten(0, (-1, groups)).unbind(-1))

    def fold(self, tokens: Tensor) -> Tensor:
        """[batch, group, ...] as rows and their groups."""
        if not self.is_expanded:
            return tokens
        return tokens.reshape(self.hidden[0].shape[0], 1, *tokens.shape[2:])

    def unfold(self, tokens: Tensor) -> Tensor:
        """Back to [batch, group, ...]."""
        return tokens.reshape(*self.shape, *tokens.shape[2:]) if self.is_expanded else tokens


class Encoder(nn.Module):
    """Embeds observations and projects them to what the layers read."""

    def __init__(self, spec: Spec, config: ModelConfig):
        super().__init__()
        self.spec, self.config = spec, config
        width, hidden = config.width, config.feedforward
        self.advisor = advisor_for(spec, config.plugin, dict(config.plugin_settings))
        self.design_embedder = DesignEmbedder(spec.design, config.octaves, hidden, width)
        self.outcome_embedder = Mlp(spec.outcome.width, hidden, width)
        implied = len(spec.parameters) if config.implied and config.shortcuts else 0
        if config.plugin is not None:
            implied = 0  # it says what the data imply
        self.raw_numbers = RawNumbers(spec.outcome, len(spec.design), implied, hidden)
        # Always among the keys: the answer to an empty context, and what lets attention count.
        self.nothing = nn.Parameter(torch.randn(width))
        self.layers = Layers(config.layers, width, config.heads, hidden)

    def encode(self, context: Context, advice: Advice | None = None) -> Encoded:
        """Take a context in, for one group that sees all of it."""
        bias = None if context.mask is None else _bias(context.mask[:, None])
        start = self.nothing.expand(context.designs.shape[0], 1, -1)
        hidden = self.context_states(torch.cat([start, self.observe(context)], 1), bias)
        keys = self.context_keys(hidden, context)
        advice = advice or self.advisor.read(context)
        # Of `len` an export would make a constant.
        return Encoded((context.designs.shape[0], 1), context, hidden, keys, advice, bias)

    def regroup(self, encoded: Encoded, visible: Tensor, extra: Context | None = None) -> Encoded:
        """For groups that each see `visible` [batch, group, context] of a whole context.

        `extra` (designs [batch * group, n, design]) gives each group observations of its own.
        """
        if encoded.context.mask is not None:
            visible = visible & encoded.context.mask[:, None]
        shape = (visible.shape[0], visible.shape[1])
        advice = encoded.advice.regrouped(visible)
        if self.config.context == "full":
            expanded = self.encode(_expand(encoded.context, visible, extra))
            return replace(expanded, shape=shape, advice=advice, is_expanded=True)
        own = None
        if extra is not None:
            tokens = self.observe(extra)
            tokens = tokens.view(*shape, -1, tokens.shape[-1])
            own = self.context_keys(self.context_states(tokens), extra)
        return replace(
            encoded, shape=shape, bias=_bias(visible), own=own, extra=extra, advice=advice
        )

    def extend(self, encoded: Encoded, design: Tensor, outcome: Tensor) -> Encoded:
        """With one more observation: design [batch, design], outcome [batch]."""
        if encoded.own is not None or encoded.shape[1] != 1:
            raise InternalError("only a context of one group without observations of its own grows")
        context = encoded.context.append(design, outcome)
        if self.config.context == "full" or encoded.bias is not None:
            return self.encode(context)
        new_one = Context(design[:, None], outcome[:, None])
        states = self.context_states(self.observe(new_one))
        return Encoded(
            encoded.shape,
            context,
            [torch.cat(pair, 1) for pair in zip(encoded.hidden, states, strict=True)],
            append_keys(encoded.keys, self.context_keys(states, new_one)),
            encoded.advice.extend(design, outcome),
        )

    def replaced(self, encoded: Encoded, steps: Tensor, new: Context) -> Encoded:
        """With `new` observations at `steps` [batch, n]; the others pass no gradient."""
        old = encoded.context
        again = Context(
            old.designs.scatter(1, steps[..., None].expand_as(new.designs), new.designs),
            old.outcomes.scatter(1, _index(steps, new.outcomes), new.outcomes),
            prior=old.prior,
        )
        if self.config.context == "full":
            return self.encode(again)
        states = self.context_states(self.observe(new))
        rows = 1 + steps[..., None].expand_as(states[0])
        pairs = zip(encoded.hidden, states, strict=True)
        hidden = [before.detach().scatter(1, rows, state) for before, state in pairs]
        return replace(encoded, context=again, hidden=hidden, keys=self.context_keys(hidden, again))

    def observe(self, context: Context) -> Tensor:
        """Embed observations: f_x + f_y."""
        designs: Tensor = self.design_embedder(context.designs)
        outcomes: Tensor = self.outcome_embedder(self.spec.outcome.encode(context.outcomes))
        return designs + outcomes

    def context_states(self, tokens: Tensor, bias: Tensor | None = None) -> list[Tensor]:
        """The context's hidden states as each layer reads them."""
        states = [tokens]
        for layer in list(self.layers)[:-1]:
            hidden = states[-1]
            if self.config.context == "full":
                attended = layer.attend(hidden[:, None], layer.keys(hidden), bias)
                hidden = attended.tokens[:, 0]
            states.append(layer.feed(hidden))
        return states

    def context_keys(self, hidden: list[Tensor], context: Context) -> list[Keys]:
        """What each layer makes of the context's hidden states.

        The last one also has the raw observations; the token that stands for no data, where it is
        in front of them, has zeros.
        """
        *below, (layer, last) = zip(self.layers, hidden, strict=True)
        keys = [layer.keys(state) for layer, state in below]
        if not self.config.shortcuts:
            return [*keys, layer.keys(last)]
        raw = self.raw_numbers(context)
        raw = raw.view(*last.shape[:-2], -1, raw.shape[-1])
        return [*keys, layer.keys(last, F.pad(raw, (0, 0, last.shape[-2] - raw.shape[-2], 0)))]


def _bias(visible: Tensor) -> Tensor:
    """Of what groups see [batch, group, context]; all see the token that stands for no data."""
    return bias_of(torch.cat([torch.ones_like(visible[..., :1]), visible], -1))


def _index(steps: Tensor, outcomes: Tensor) -> Tensor:
    """Steps [batch, n] for outcomes [batch, n, *event]."""
    return steps.reshape(*steps.shape, *[1] * (outcomes.dim() - 2)).expand_as(outcomes)


def append_keys(keys: list[Keys], more: list[Keys]) -> list[Keys]:
    """A layer's keys behind those that it has."""
    return [a.append(b) for a, b in zip(keys, more, strict=True)]


def _expand(context: Context, visible: Tensor, extra: Context | None) -> Context:
    """Every group as an episode of its own: what attends to each other differs between groups."""
    groups = visible.shape[1]
    designs = context.designs.repeat_interleave(groups, 0)
    outcomes = context.outcomes.repeat_interleave(groups, 0)
    mask = visible.flatten(0, 1)
    prior = None if context.prior is None else context.prior.repeat_interleave(groups, 0)
    if extra is None:
        return Context(designs, outcomes, mask, prior)
    return Context(
        torch.cat([designs, extra.designs], 1),
        torch.cat([outcomes, extra.outcomes], 1),
        torch.cat([mask, torch.ones(extra.designs.shape[:2], dtype=torch.bool)], 1),
        prior,
    )
