"""The network: context in, posterior, predictions and the next design out.

The inference half (phi) embeds the context and decodes targets from it. The policy half (psi) has
its own embedder and layers, and reads the context's and the targets' hidden states without passing
gradients back, so that the policy's loss never disturbs q (paper, section 3.3).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aline.episodes import Context, Goal
from aline.errors import InputError, InternalError
from aline.model.attention import Absorbed, Keys, Layers, Reading, bias_of
from aline.model.closeup import CloseUp, Seen
from aline.model.embedder import DesignEmbedder, Mlp
from aline.model.heads import Head
from aline.model.hypotheses import Guess, Hypotheses
from aline.model.kernels import Bank, Expectation, KernelBank, place_of
from aline.model.live_bank import LiveBank
from aline.spaces import Belief, Design, Outcome, Real
from aline.spaces.outcomes.mixture import STD_FLOOR, Mixture
from aline.tasks import Spec

MANY = 64  # candidates from which on their attention is arranged for many
INSIDE = (0.003, 0.997)  # shares of the way across a design's axis that count as its ends
AT_ONCE = 5000  # candidates whose tokens are held at a time: a few hundred kB an operation
WORTH_UNIT = 4.0  # nats of a worth that a token sees as one
STEEP = 20.0  # what a pool policy's logits gain at first as a candidate's worth grows e-fold


@dataclass(frozen=True)
class ModelConfig:
    """Sizes; the defaults are the paper's (appendix B.2)."""

    width: int = 32
    heads: int = 4
    layers: int = 3
    feedforward: int = 128
    components: int = 10
    octaves: int = 4
    policy_layers: int = 2
    # "independent": context tokens do not attend to each other, decoders attend to them; every
    # prefix trains in one pass and an observation is added in constant work. "full": the paper's.
    context: Literal["independent", "full"] = "independent"
    # "pool" scores candidates; "box" proposes a point; "informed" asks the task what candidates
    # tell, where it can, and else scores them (model/informed.py).
    policy: Literal["pool", "box", "informed"] = "pool"
    # Give the heads, beside a token, what its attention reads of the observations as they are, and
    # tell the policy the means and spreads of q: fine scales pass both without being relearned.
    shortcuts: bool = True
    # How often the parameters' tokens look at the observations again, each time from closer by
    # (model/closeup.py); needs the shortcuts.
    looks: int = 0
    # How many GPs with fixed kernels describe the data to the network (model/kernels.py): for
    # outcomes that depend on each other through an unknown function.
    kernels: int = 0
    # Into how many hypotheses a Gaussian process's own parameters are put (model/hypotheses.py);
    # needs kernels.
    hypotheses: int = 0

    def __post_init__(self) -> None:
        if self.hypotheses and not self.kernels:
            raise InputError("hypotheses are beside kernels: use kernels=12, say, too")
        if self.kernels and self.policy == "box":
            raise InputError("kernels are features of candidates: use policy='pool'")
        if self.width % self.heads:
            raise InputError(
                f"width must be a multiple of heads, got width {self.width} and {self.heads} heads"
            )
        if self.looks and (not self.shortcuts or self.width % (2 * self.heads)):
            raise InputError(
                "looks need shortcuts and a width that is a multiple of twice the heads, got width "
                f"{self.width} and {self.heads} heads: change these, or use looks=0"
            )
        if not 1 <= self.policy_layers <= self.layers:
            raise InputError(
                f"policy_layers must lie in [1, layers = {self.layers}], got {self.policy_layers}"
            )

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card; without kernels, as cards were before there were any."""
        later = {"kernels", "hypotheses"}
        return {k: v for k, v in asdict(self).items() if v or k not in later}


@dataclass(frozen=True)
class Proposal:
    """A point of the box and how sure the policy is of it, on the network's scale."""

    mean: Tensor  # [batch, group, design]
    log_std: Tensor  # [batch, group, design]
    strain: Tensor  # [batch, group, design], how far the head leans on the bounds of both

    def draw(self, generator: torch.Generator) -> Tensor:
        """A point around the mean, inside the box, that passes gradients to both."""
        noise = torch.randn(self.mean.shape, generator=generator)
        return (self.mean + self.log_std.exp() * noise).clamp(-1, 1)


class Network(nn.Module):
    """Assembles embedders, layers and heads for one task."""

    def __init__(self, spec: Spec, config: ModelConfig):
        super().__init__()
        self.spec, self.config = spec, config
        width, hidden = config.width, config.feedforward
        design, outcome = len(spec.design), spec.outcome.width
        self.design_embedder = DesignEmbedder(spec.design, config.octaves, hidden, width)
        self.outcome_embedder = Mlp(outcome, hidden, width)
        self.parameter_embedding = nn.Parameter(torch.randn(len(spec.parameters), width))
        self.prediction_marker = nn.Parameter(torch.randn(width))
        # Always among the keys: the answer to an empty context, and what lets attention count.
        self.nothing = nn.Parameter(torch.randn(width))
        self.layers = Layers(config.layers, width, config.heads, hidden)
        self.norm = nn.LayerNorm(width)
        plain = config.heads * (design + outcome) if config.shortcuts else 0
        self.close_up = None
        if config.looks:
            self.close_up = CloseUp(config.looks, design, outcome, width, config.heads)
        closer = 2 * design if self.close_up else 0
        # On the network's scale a parameter is a number whose prior is N(0, 1).
        sizes = width, hidden, config.components
        self.posterior_head = Head(Real(0.0, 1.0), *sizes, plain + closer)
        self.predictive_head = Head(spec.outcome, *sizes, plain)
        # Hypotheses tell a policy more of the parameters, and only where it needs to know.
        told = len(spec.parameters) if config.shortcuts and not config.hypotheses else 0
        self.policy = PolicyHalf(spec.design, told, config)
        self.kernels = None
        if config.kernels:
            if not spec.outcome.is_continuous or spec.outcome.event_shape:
                raise InputError("kernels are for real outcomes: use ModelConfig(kernels=0)")
            self.kernels = KernelBank.spread(len(spec.design), config.kernels)
            self.point_features = Mlp(self.kernels.point_features, hidden, width)
            features = self.kernels.context_features
            if config.hypotheses:
                self.kernels.hypotheses = hypotheses = Hypotheses(spec, config.hypotheses)
                features += hypotheses.guess_features
            self.context_features = Mlp(features, hidden, width)

    @property
    def hypotheses(self) -> Hypotheses | None:
        """About a Gaussian process's own parameters."""
        found = None if self.kernels is None else self.kernels.hypotheses
        return found if isinstance(found, Hypotheses) else None

    def read(
        self,
        context: Context,
        visible: Tensor | None = None,
        extra: Context | None = None,
        bank: Bank | None = None,
        encoded: Encoded | None = None,
    ) -> View:
        """Take a context in.

        `visible` [batch, group, context] makes several groups of it, each seeing a part; `extra`
        (designs [batch * group, n, design]) gives each group observations of its own. `bank` is one
        of the whole context, for groups that see prefixes, and `encoded` what `encode` makes of it.
        """
        if visible is None:
            mask = context.mask
            visible = None if mask is None else mask[:, None]
        elif context.mask is not None:
            visible = visible & context.mask[:, None]
        view = self.read_tokens(context, visible, extra, encoded)
        if bank is not None and visible is not None:
            view.bank = bank.prefixes(visible)
        elif self.kernels is not None:
            view.bank = self.kernels.read(context, visible, extra)
        return view

    def read_tokens(
        self,
        context: Context,
        visible: Tensor | None = None,
        extra: Context | None = None,
        encoded: Encoded | None = None,
    ) -> View:
        """As `read`, but for the bank."""
        if self.config.context == "full" and (visible is not None or extra is not None):
            return self._read_expanded(context, visible, extra)
        if encoded is None:
            encoded = self._encode(context)
        bias = None if visible is None else bias_of(_with_nothing(visible))
        batch, groups = len(context.outcomes), _groups(context, visible, extra)
        private = None
        if extra is not None:
            own = self.observe_tokens(extra.designs, extra.outcomes)
            own = own.view(batch, groups, -1, own.shape[-1])
            private = self.context_keys(self.context_states(own), extra)
        return View(self, context, *encoded, bias, private, (batch, groups))

    def encode(self, context: Context) -> Encoded | None:
        """What `read` makes of observations that do not attend to each other, to be read again."""
        return None if self.config.context == "full" else self._encode(context)

    def _encode(self, context: Context) -> Encoded:
        tokens = self.observe_tokens(context.designs, context.outcomes)
        start = self.nothing.expand(len(tokens), 1, -1)
        hidden = self.context_states(torch.cat([start, tokens], 1))
        return Encoded(hidden, self.context_keys(hidden, context))

    def encode_anew(
        self, encoded: Encoded, context: Context, steps: Tensor, new: Context
    ) -> Encoded:
        """Of a context with `new` observations at `steps` [batch, n]; others pass no gradient."""
        states = self.context_states(self.observe_tokens(new.designs, new.outcomes))
        rows = 1 + steps[..., None].expand_as(states[0])
        hidden = [
            old.detach().scatter(1, rows, new)
            for old, new in zip(encoded.hidden, states, strict=True)
        ]
        return Encoded(hidden, self.context_keys(hidden, context))

    def _read_expanded(
        self, context: Context, visible: Tensor | None, extra: Context | None
    ) -> View:
        """Self-attention differs between groups, so each becomes an episode of its own."""
        batch, length = context.outcomes.shape[:2]
        groups = _groups(context, visible, extra)
        if visible is None:
            visible = torch.ones(batch, groups, length, dtype=torch.bool)
        # Observations are embedded once, before every group gets its own copy.
        tokens = self.observe_tokens(context.designs, context.outcomes)
        tokens = tokens.repeat_interleave(groups, 0)
        designs = context.designs.repeat_interleave(groups, 0)
        outcomes = context.outcomes.repeat_interleave(groups, 0)
        mask = visible.reshape(batch * groups, length)
        if extra is not None:
            own = self.observe_tokens(extra.designs, extra.outcomes)
            tokens = torch.cat([tokens, own], 1)
            designs = torch.cat([designs, extra.designs], 1)
            outcomes = torch.cat([outcomes, extra.outcomes], 1)
            mask = torch.cat([mask, torch.ones(extra.outcomes.shape[:2], dtype=torch.bool)], 1)
        start = self.nothing.expand(len(tokens), 1, -1)
        bias = bias_of(_with_nothing(mask[:, None]))
        hidden = self.context_states(torch.cat([start, tokens], 1), bias)
        expanded = Context(designs, outcomes, mask)
        keys = self.context_keys(hidden, expanded)
        return View(self, expanded, hidden, keys, bias, None, (batch, groups))

    def observe_tokens(self, designs: Tensor, outcomes: Tensor) -> Tensor:
        """Embed observations: f_x + f_y."""
        seen = self.spec.outcome.encode(outcomes)
        tokens: Tensor = self.design_embedder(designs) + self.outcome_embedder(seen)
        return tokens

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

        The last one also gives the observations as they are; the token that stands for no data,
        where it is in front of them, is all zeros.
        """
        *below, last = zip(self.layers, hidden, strict=True)
        keys = [layer.keys(state) for layer, state in below]
        if not self.config.shortcuts:
            return [*keys, last[0].keys(last[1])]
        seen = plain_observations(context, self.spec.outcome)
        seen = seen.view(*last[1].shape[:-2], -1, seen.shape[-1])
        missing = last[1].shape[-2] - seen.shape[-2]
        return [*keys, last[0].keys(last[1], F.pad(seen, (0, 0, missing, 0)))]


def plain_observations(context: Context, outcome: Outcome) -> Tensor:
    """Designs and outcomes [..., n, design + outcome.width].

    Designs are on the scale on which a parameter that is uniform on the same interval is seen.
    """
    designs = torch.special.ndtri((0.5 + 0.5 * context.designs).clamp(*INSIDE))
    return torch.cat([designs, outcome.encode(context.outcomes)], -1)


class Encoded(NamedTuple):
    """Observations, and before them the token that stands for none, as each layer holds them."""

    hidden: list[Tensor]  # a layer: [batch, 1 + context, embed]
    keys: list[Keys]


class Advice(NamedTuple):
    """What a bank says of candidates [batch, group, query], for a policy to make use of."""

    features: Tensor  # [..., point_features]
    worth: Tensor | None  # [..., worth_features], where the goal has predictions
    telling: Tensor | None  # [...], where it has parameters and there are hypotheses

    def of(self, rows: slice) -> Advice:
        """Of some episodes."""
        return Advice(*(None if part is None else part[rows] for part in self))  # type: ignore[arg-type]


class PolicyHalf(nn.Module):
    """psi: candidates (or one proposal token) read the context and the goal.

    It is told the means and spreads of q for `told` parameters.
    """

    def __init__(self, space: Design, told: int, config: ModelConfig):
        super().__init__()
        design, width, hidden = len(space), config.width, config.feedforward
        self.layers = Layers(config.policy_layers, width, config.heads, hidden)
        self.norm = nn.LayerNorm(width)
        self.is_box = config.policy == "box"
        if self.is_box:
            self.proposal = nn.Parameter(torch.randn(width))
            layout = torch.zeros(2 + (told + 2 if told else 0), design)
            layout[1] = -1.0
            if told:
                layout[-1] = 1.0  # at first it follows nothing
            self.head = Mlp(width, hidden, layout.numel())
            with torch.no_grad():
                self.head.second.weight.mul_(0.1)
                self.head.second.bias.copy_(layout.flatten())
        else:
            self.embedder = DesignEmbedder(space, config.octaves, hidden, width)
            self.head = Mlp(width, hidden, 1)
        self.told = nn.Linear(2 * told, hidden, bias=False) if told else None
        if config.kernels:
            kernels = KernelBank.spread(design, config.kernels)
            self.point_features = Mlp(kernels.point_features, hidden, width)
            self.worth_features = Mlp(kernels.worth_features, hidden, width)
            self.trust = nn.Parameter(torch.ones(()))  # in what the bank says a candidate is worth
        if config.hypotheses:
            self.belief = nn.Parameter(torch.ones(()))  # in what it would tell of the parameters

    def advised(self, advice: Advice) -> Tensor:
        """What is added to candidates' tokens."""
        tokens: Tensor = self.point_features(advice.features)
        if advice.worth is None:
            return tokens
        told: Tensor = self.worth_features(advice.worth / WORTH_UNIT)
        return tokens + told

    def leaning(self, logits: Tensor, advice: Advice) -> Tensor:
        """Logits [batch, group, query] relative to what the bank finds best.

        A token of 32 normalised numbers would be a poor ruler for worths that differ by a percent.
        """
        if advice.worth is not None:
            logits = logits + STEEP * self.trust * advice.worth[..., -1]
        if advice.telling is not None:
            logits = logits + STEEP * self.belief * advice.telling
        return logits


def _groups(context: Context, visible: Tensor | None, extra: Context | None) -> int:
    if visible is not None:
        return visible.shape[1]
    return 1 if extra is None else len(extra.outcomes) // len(context.outcomes)


def _with_nothing(visible: Tensor) -> Tensor:
    """Every group sees the token that stands for no data."""
    return torch.cat([torch.ones_like(visible[..., :1]), visible], -1)


class Decoded(NamedTuple):
    """Target tokens as the network leaves them."""

    states: list[Tensor]  # after each layer, [batch, group, target, embed]
    plain: Tensor  # what the last layer read of the observations as they are

    def split(self, sizes: list[int]) -> list[Decoded]:
        """So many targets each."""
        states = zip(*(state.split(sizes, 2) for state in self.states), strict=True)
        plain = self.plain.split(sizes, 2)
        return [Decoded(list(part), read) for part, read in zip(states, plain, strict=True)]


class Pointed(NamedTuple):
    """Points' tokens as the network leaves them, and what the bank expects there."""

    decoded: Decoded
    expected: Expectation | None

    @property
    def can_serve(self) -> bool:
        """Whether gradients pass where they are asked for."""
        return self.decoded.states[-1].requires_grad or not torch.is_grad_enabled()


@dataclass
class View:
    """A context as the network holds it, for a number of groups an episode.

    Posteriors come as [batch, group, parameter]; with one group, the whole context's.
    """

    network: Network
    context: Context
    hidden: list[Tensor]  # a layer: [batch, 1 + context, embed]
    keys: list[Keys]
    bias: Tensor | None
    private: list[Keys] | None
    shape: tuple[int, int]  # batch, group, as the caller sees them
    _policy_keys: list[Keys] = field(default_factory=list)
    # The same context as GPs see it, where the network has kernels.
    bank: Bank | LiveBank | None = None
    _last_points: tuple[Tensor, Pointed] | None = None

    def _fold(self, tokens: Tensor) -> Tensor:
        """[batch, group, ...] to the layout the keys are in."""
        batch = len(self.hidden[0])
        return tokens.reshape(batch, -1, *tokens.shape[2:])

    def _unfold(self, tokens: Tensor) -> Tensor:
        return tokens.reshape(*self.shape, *tokens.shape[2:])

    def decode(self, tokens: Tensor) -> Decoded:
        """Target tokens [batch, group, target, embed] after each layer; they see only context."""
        reading = Reading(self._fold(tokens), torch.zeros(()))
        states = []
        for i, layer in enumerate(self.network.layers):
            own = None if self.private is None else self.private[i]
            reading = layer(reading.tokens, self.keys[i], self.bias, own)
            states.append(reading.tokens)
        return Decoded(states, reading.plain)

    @cached_property
    def parameter_states(self) -> Decoded:
        """The parameters' tokens after each layer."""
        return self.decode(self._parameter_tokens())

    def _parameter_tokens(self) -> Tensor:
        tokens = self.network.parameter_embedding
        return self._described(tokens.expand(*self.shape, *tokens.shape))

    def _described(self, tokens: Tensor) -> Tensor:
        """Parameters' tokens [batch, group, parameter, embed] with what the bank says of them."""
        if self.bank is None:
            return tokens
        features = self.bank.describe()
        if self.guess is not None:
            features = torch.cat([features, self.guess.describe()], -1)
        out: Tensor = tokens + self.network.context_features(features)[:, :, None]
        return out

    @property
    def supposed(self) -> Bank:
        """The context as hypotheses about the parameters see it."""
        assert isinstance(self.bank, Bank)
        return self.bank.supposed

    @cached_property
    @torch.no_grad()
    def guess(self) -> Guess | None:
        """What hypotheses say of the parameters, where the network has them."""
        hypotheses = self.network.hypotheses
        return None if hypotheses is None else hypotheses.guess(self.supposed)

    def posterior(self, chosen: Tensor | None = None) -> Mixture:
        """Marginal posteriors [batch, group, parameter] on the network's scale.

        Only of the parameters with indices `chosen` [batch, n], if given.
        """
        belief = self._posterior(chosen)
        if self.guess is None:
            return belief
        mean, std = self.guess.mean, self.guess.std
        if chosen is not None:
            index = chosen[:, None].expand(-1, mean.shape[1], -1)
            mean, std = mean.gather(2, index), std.gather(2, index)
        return belief.moved(mean, std)

    def _posterior(self, chosen: Tensor | None) -> Mixture:
        """Relative to what hypotheses say, if there are any."""
        if chosen is None:
            decoded = self.parameter_states
        else:
            tokens = self.network.parameter_embedding[chosen][:, None]
            decoded = self.decode(self._described(tokens.expand(*self.shape, *tokens.shape[2:])))
        said = self._said(decoded) if self.network.close_up is None else self._looked(decoded)
        belief: Mixture = self.network.posterior_head(*said)
        return belief

    def _looked(self, decoded: Decoded) -> tuple[Tensor, ...]:
        """What the head makes a belief of after close looks."""
        assert self.network.close_up is not None
        tokens = self.network.norm(decoded.states[-1])
        sight, plain = self.network.close_up(tokens, decoded.plain, self._seen())
        return tuple(self._unfold(part) for part in (sight.tokens, plain, sight.zoom))

    def _seen(self) -> Seen:
        """The observations as they are: they lie behind the values that attention mixes."""
        head_dim = self.network.config.width // self.network.config.heads
        plain = self.keys[-1].values[:, 0, None, 1:, head_dim:]
        bias = None if self.bias is None else self.bias[:, 0, ..., 1:]
        if self.private is None:
            return Seen.of(plain, bias)
        own = self.private[-1].values[:, 0, ..., head_dim:]
        plain = plain.expand(-1, own.shape[1], -1, -1)
        if bias is not None:
            bias = F.pad(bias, (0, own.shape[2]))
        return Seen.of(torch.cat([plain, own], 2), bias)

    def _said(self, decoded: Decoded) -> tuple[Tensor, ...]:
        """What a head makes a belief of."""
        return self.network.norm(self._unfold(decoded.states[-1])), self._unfold(decoded.plain)

    @cached_property
    def moments(self) -> Tensor:
        """What the policy is told of q: means, then log spreads, [batch, group, 2 * parameter]."""
        with torch.no_grad():
            mean, std = self.posterior().moments()
            return torch.cat([mean, std.clamp_min(STD_FLOOR).log()], -1)

    def recall(self, decoded: Decoded, moments: Tensor) -> None:
        """Take over what the same weights made of the parameters before, [batch, group, ...]."""
        states = [self._fold(state) for state in decoded.states]
        self.parameter_states = Decoded(states, self._fold(decoded.plain))
        self.moments = moments

    def _at(self, points: Tensor) -> Pointed:
        """What is said of points; the last ones are kept, as they may be a goal's too.

        What was decoded without gradients must not serve a loss.
        """
        last = self._last_points
        if last is None or place_of(last[0]) != place_of(points) or not last[1].can_serve:
            expected = self._expected(points)
            pointed = Pointed(self._decode_points(points, expected), expected)
            last = self._last_points = (points, pointed)
        return last[1]

    def _decode_points(self, points: Tensor, expected: Expectation | None) -> Decoded:
        return self.decode(self._point_tokens(points, expected))

    def _expected(self, points: Tensor) -> Expectation | None:
        return None if self.bank is None else self.bank.predict(points)

    def _point_tokens(self, points: Tensor, expected: Expectation | None) -> Tensor:
        tokens: Tensor = self.network.design_embedder(points) + self.network.prediction_marker
        tokens = tokens.expand(*self.shape, *tokens.shape[2:])
        if expected is not None:
            tokens = tokens + self.network.point_features(expected.features)
        return tokens

    def decode_with(self, points: Tensor) -> None:
        """In one pass what `posterior` and then `predictive` of these points are made of."""
        expected = self._expected(points)
        tokens = [self._parameter_tokens(), self._point_tokens(points, expected)]
        self.parameter_states, decoded = self.decode(torch.cat(tokens, 2)).split(
            [part.shape[2] for part in tokens]
        )
        self._last_points = (points, Pointed(decoded, expected))

    def predictive(self, points: Tensor) -> Belief:
        """Beliefs about outcomes at points [batch, group or 1, target, design]."""
        decoded, expected = self._at(points)
        belief = self._believe(decoded)
        return belief if expected is None else belief.moved(expected.mean, expected.std)

    def _believe(self, decoded: Decoded) -> Belief:
        """What points' tokens say of outcomes, relative to what the bank expects."""
        belief: Belief = self.network.predictive_head(*self._said(decoded))
        return belief

    def best(self, candidates: Tensor, goal: Goal, allowed: Tensor | None = None) -> Tensor:
        """Indices [batch] of the candidates [batch, query, design] with the largest logits.

        Only of those `allowed` [batch, query], if given.
        """
        scores = self.scores(candidates[:, None], goal)[:, 0]
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -torch.inf)
        return scores.argmax(1)

    def scores(self, candidates: Tensor, goal: Goal) -> Tensor:
        """The pool policy's logits [batch, group, query] of [batch, group or 1, query, design]."""
        if self.shape[1] == 1 and candidates.shape[2] >= MANY and not self._is_learning:
            candidates = candidates.expand(self.shape[0], *candidates.shape[1:])
            return self._scores_of_many(candidates[:, 0], goal)[:, None]
        policy, told = self.network.policy, self._told()
        advice = self._advice(candidates, goal)
        tokens = policy.embedder(candidates, None if told is None else told[:, :, None])
        tokens = tokens.expand(*self.shape, *tokens.shape[2:])
        if advice is not None:
            tokens = tokens + policy.advised(advice)
        logits: Tensor = policy.head(self._policy_decode(tokens, goal)).squeeze(-1)
        return logits if advice is None else policy.leaning(logits, advice)

    def _advice(self, candidates: Tensor, goal: Goal) -> Advice | None:
        """What the bank says of candidates [batch, group or 1, query, design]."""
        if self.bank is None:
            return None
        worth = telling = None
        if goal.points.shape[1]:
            worth = self.bank.worth(candidates, goal.points, goal.points_mask)
        hypotheses = self.network.hypotheses
        if hypotheses is not None and goal.has_parameters:
            with torch.no_grad():
                telling = hypotheses.telling(self.supposed, candidates, goal.parameters)
        return Advice(self.bank.predict(candidates).features, worth, telling)

    def _scores_of_many(self, candidates: Tensor, goal: Goal) -> Tensor:
        """Likewise of one group's [batch, query, design], a few episodes at a time.

        Their tokens stay in the processor's cache from one operation to the next.
        """
        policy, told = self.network.policy, self._told()
        advice = self._advice(candidates[:, None], goal)
        readers = self._absorbed(goal)
        batch, count = self.shape[0], candidates.shape[1]
        found, step = [], max(1, AT_ONCE // count)
        for rows in (slice(start, start + step) for start in range(0, batch, step)):
            tokens = policy.embedder(candidates[rows], None if told is None else told[rows])
            if advice is not None:
                tokens = tokens + policy.advised(advice.of(rows))[:, 0]
            for layer, reader in zip(policy.layers, readers, strict=True):
                tokens = layer.read_many(tokens, reader.of(rows))
            found.append(policy.head(policy.norm(tokens)).squeeze(-1))
        logits = torch.cat(found)
        return logits if advice is None else policy.leaning(logits[:, None], advice)[:, 0]

    def _absorbed(self, goal: Goal) -> list[Absorbed]:
        """The context and the goal as many candidates read them in each of the policy's layers."""
        states, bias = self._goal_states(goal)
        layers, keys = self.network.policy.layers, self._context_keys()
        return [
            layer.absorb(known, self.bias, layer.keys(state), bias)
            for layer, known, state in zip(layers, keys, states, strict=True)
        ]

    def _told(self) -> Tensor | None:
        """What the policy makes of q's moments, [batch, group, hidden]."""
        told = self.network.policy.told
        return None if told is None else told(self.moments)

    def propose(self, goal: Goal) -> Proposal:
        """The box policy's point."""
        token: Tensor = self.network.policy.proposal
        token = self._policy_decode(token.expand(*self.shape, 1, -1), goal)[:, :, 0]
        policy = self.network.policy
        numbers = policy.head(token, self._told()).unflatten(
            -1, (-1, len(self.network.spec.design))
        )
        raw, spread = numbers[..., 0, :], numbers[..., 1, :]
        point = raw
        if policy.told is not None:
            means = self.moments.chunk(2, -1)[0]
            share = numbers[..., 3:, :].softmax(-2)[..., :-1, :]
            scale = numbers[..., 2, :].clamp(-6.0, 0.0)
            point = (share * means[..., None]).sum(-2) + scale.exp() * raw
            spread = spread + scale
        log_std = spread.clamp(-6.0, 0.0)
        # The inverse of the scale on which a parameter that is uniform on the box is seen.
        mean = torch.erf(point / math.sqrt(2))
        return Proposal(mean, log_std, raw**2 + (spread - log_std) ** 2)

    def _policy_decode(self, tokens: Tensor, goal: Goal) -> Tensor:
        """Queries see the context and the selected targets, never each other."""
        if self.private is not None:
            raise InternalError("a policy cannot read the private observations of a view")
        policy = self.network.policy
        states, bias = self._goal_states(goal)
        tokens = self._fold(tokens)
        for layer, keys, state in zip(policy.layers, self._context_keys(), states, strict=True):
            tokens = layer(tokens, keys, self.bias, layer.keys(state), bias).tokens
        out: Tensor = policy.norm(self._unfold(tokens))
        return out

    def _context_keys(self) -> list[Keys]:
        """The context as the policy's layers read it, kept for the next call.

        What was projected without gradients must not serve a loss: it would leave the projection
        untrained.
        """
        if self._policy_keys and not self._is_learning:
            return self._policy_keys
        keys = self._project_policy_keys(self.hidden)
        if not self._is_learning:
            self._policy_keys = keys
        return keys

    @property
    def _is_learning(self) -> bool:
        return torch.is_grad_enabled() and self.network.policy.norm.weight.requires_grad

    def _project_policy_keys(self, hidden: list[Tensor]) -> list[Keys]:
        layers = self.network.policy.layers
        used = hidden[-len(layers) :]
        return [layer.keys(h.detach()) for layer, h in zip(layers, used, strict=True)]

    def _goal_states(self, goal: Goal) -> tuple[list[Tensor], Tensor | None]:
        """The goal's tokens as the policy's layers read them, and which of them count."""
        depth, parts, masks = len(self.network.policy.layers), [], []
        if goal.has_parameters:
            parts.append(self.parameter_states.states[-depth:])
            masks.append(goal.parameters)
        if goal.points.shape[1]:
            parts.append(self._at(goal.points[:, None]).decoded.states[-depth:])
            masks.append(goal.points_mask)
        states = [torch.cat(layer, 2).detach() for layer in zip(*parts, strict=True)]
        mask = torch.cat(masks, 1)
        bias = bias_of(self._fold(mask[:, None].expand(*self.shape, -1)))
        if goal.points.shape[1]:
            weight = goal.log_weight[:, -mask.shape[1] :]
            weight = self._fold(weight[:, None].expand(*self.shape, -1))[:, None, :, None, :]
            bias = weight if bias is None else bias + weight
        return states, bias

    def extend(self, design: Tensor, outcome: Tensor) -> View:
        """With one more observation: design [batch, design], outcome [batch, *event]."""
        if self.private is not None or self.shape[1] != 1:
            raise InternalError("only a view of one group without private observations grows")
        context = self.context.append(design, outcome)
        network = self.network
        if network.config.context == "full" or self.bias is not None:
            return network.read(context)
        new_one = Context(design[:, None], outcome[:, None])
        states = network.context_states(network.observe_tokens(new_one.designs, new_one.outcomes))
        new_keys = network.context_keys(states, new_one)
        keys = [old.append(new) for old, new in zip(self.keys, new_keys, strict=True)]
        hidden = [torch.cat(pair, 1) for pair in zip(self.hidden, states, strict=True)]
        view = View(network, context, hidden, keys, None, None, self.shape)
        if self.bank is not None:
            view.bank = self.bank.extend(design, outcome)
        if self._policy_keys and not self._is_learning:
            new = self._project_policy_keys(states)
            view._policy_keys = [a.append(b) for a, b in zip(self._policy_keys, new, strict=True)]
        return view
