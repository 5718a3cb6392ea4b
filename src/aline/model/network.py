"""The network: context in; posterior, predictions and the next design out.

The inference half (phi) embeds the context (model/encoder.py) and decodes targets from it; the
policy half (psi) has an embedder and layers of its own (model/policy.py). A network keeps nothing
of what it reads: all that it knows of a context is `Encoded`, and what it made of the parameters
there is a `Summary`. Results come as [batch, group, ...].
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aline.episodes import Context, Goal
from aline.errors import InternalError
from aline.model.advice import Frame
from aline.model.attention import Reading
from aline.model.config import ModelConfig
from aline.model.emulator import Emulator, Evidence, NewtonStep, points_around
from aline.model.encoder import Encoded, Encoder, append_keys
from aline.model.heads import Head
from aline.model.joint import Conditional, Joint, Known
from aline.model.policy import PolicyHalf, Proposal, Read
from aline.model.prior import PriorTokens, own_prior, seen_from
from aline.model.tokens import Added
from aline.model.zoom import RawObservations, Zoom
from aline.spaces import Belief, Real
from aline.spaces.outcomes.mixture import STD_FLOOR, Mixture
from aline.tasks import Spec


class Decoded(NamedTuple):
    """Target tokens as the inference half leaves them."""

    states: list[Tensor]  # after each layer, [row, group, target, embed]
    raw: Tensor  # the last layer's averages of the raw observations

    def split(self, sizes: list[int]) -> list[Decoded]:
        """So many targets each."""
        states = zip(*(state.split(sizes, 2) for state in self.states), strict=True)
        raw = self.raw.split(sizes, 2)
        return [Decoded(list(part), read) for part, read in zip(states, raw, strict=True)]


class Summary(NamedTuple):
    """What q knows of the parameters, as the policy reads it."""

    decoded: Decoded
    moments: Tensor | None  # means, then log spreads, [batch, group, 2 * parameter]
    with_points: Decoded | None = None  # the parameters, then the goal's points, if at hand


class Network(Encoder):
    """Assembles embedders, layers and heads for one task."""

    def __init__(self, spec: Spec, config: ModelConfig):
        super().__init__(spec, config)
        width, hidden = config.width, config.feedforward
        design = len(spec.design)
        self.parameter_embedding = nn.Parameter(torch.randn(len(spec.parameters), width))
        self.prediction_marker = nn.Parameter(torch.randn(width))
        self.norm = nn.LayerNorm(width)
        raw = config.heads * self.raw_numbers.width if config.shortcuts else 0
        self.zoom = None
        if config.zoom_layers:
            self.zoom = Zoom(
                config.zoom_layers, design, self.raw_numbers.width - design, width, config.heads
            )
        centres = 2 * design if self.zoom else 0  # the first and the last
        # On the network's scale a parameter is a number whose prior is N(0, 1).
        sizes = width, hidden, config.components
        self.posterior_head = Head(Real(0.0, 1.0), *sizes, raw + centres)
        self.predictive_head = Head(spec.outcome, *sizes, raw)
        self.emulator: Emulator | None = None
        self.newton_steps = nn.ModuleList()
        if config.newton_steps and len(spec.parameters) and config.plugin is None:
            self.emulator = Emulator(spec.outcome, design, spec.parameters, config.width)
            self.newton_steps.extend(NewtonStep(*sizes) for _ in range(config.newton_steps))
        self.prior_tokens = PriorTokens(len(spec.parameters), config) if config.priors else None
        self.conditional: Conditional | None = None
        if config.joint and len(spec.parameters) > 1 and config.plugin is None:
            self.conditional = Conditional(len(spec.parameters), raw + centres, config)
        self.policy: PolicyHalf | None = None
        if config.policy != "plugin":
            summarised = len(spec.parameters) if config.shortcuts else 0
            effects = self.emulator.effects if self.emulator and summarised else 0
            self.policy = PolicyHalf(spec.design, summarised, effects, config)
        self.point_advice = Added(self.advisor.point_width, hidden, width)
        self.context_advice = Added(self.advisor.context_width, hidden, width)

    @property
    def is_box(self) -> bool:
        return self.config.policy == "box"  # whether the policy proposes a point

    # Episodes that are played: the policy's keys are kept, and nothing can be learned.

    def begin(self, batch: int, prior: Tensor | None = None) -> Encoded:
        """Nothing measured yet; `prior` [batch, parameter, 2] where it is not the task's own."""
        event = self.spec.outcome.event_shape
        empty = self.encode(Context.empty(batch, len(self.spec.design), event, prior))
        if self.policy is None:
            return empty
        return replace(empty, policy_keys=self.policy.keys(empty.hidden))

    def extend(self, encoded: Encoded, design: Tensor, outcome: Tensor) -> Encoded:
        """With one more observation: design [batch, design], outcome [batch, *event]."""
        grown = super().extend(encoded, design, outcome)
        if self.policy is None or encoded.policy_keys is None or self.config.context == "full":
            return grown
        new = self.policy.keys([state[:, -1:] for state in grown.hidden])
        return replace(grown, policy_keys=append_keys(encoded.policy_keys, new))

    # Beliefs about parameters and outcomes.

    def decode(self, encoded: Encoded, tokens: Tensor) -> Decoded:
        """Target tokens [batch, group, target, embed] after each layer; they see only context."""
        reading = Reading(encoded.fold(tokens), torch.zeros(()))
        states = []
        for i, layer in enumerate(self.layers):
            own = None if encoded.own is None else encoded.own[i]
            reading = layer(reading.tokens, encoded.keys[i], encoded.bias, own)
            states.append(reading.tokens)
        return Decoded(states, reading.raw)

    def decode_parameters(self, encoded: Encoded) -> Decoded:
        """The parameters' tokens after each layer."""
        return self.decode(encoded, self._parameter_tokens(encoded))

    def summary(self, encoded: Encoded) -> Summary:
        """What the policy reads of the parameters; its gradient ends here."""
        with torch.no_grad():
            decoded = self.decode_parameters(encoded)
            if self.policy is None or self.policy.summary is None:
                return Summary(decoded, None)
            return self.summary_of(decoded, self.posterior_of(encoded, decoded))

    def summary_of(self, decoded: Decoded, posterior: Mixture) -> Summary:
        """As `summary`, where the posterior is at hand: its means and log spreads."""
        if self.policy is None or self.policy.summary is None:
            return Summary(decoded, None)
        mean, std = posterior.moments()
        return Summary(decoded, torch.cat([mean, std.clamp_min(STD_FLOOR).log()], -1))

    def posterior(self, encoded: Encoded) -> Mixture:
        """Marginal posteriors [batch, group, parameter] on the network's scale."""
        return self.guesses(encoded)[-1]

    def guesses(self, encoded: Encoded) -> list[Mixture]:
        """The marginal posteriors as first guessed, then after each step: all are learned."""
        return self._guesses_of(encoded, self.decode_parameters(encoded))

    def predictive(self, encoded: Encoded, points: Tensor) -> Belief:
        """Beliefs [batch, group, n] about outcomes at points [batch, (group,) n, design]."""
        tokens, frame = self._point_tokens(encoded, points)
        return self.predicted(encoded, self.decode(encoded, tokens), frame)

    def beliefs(self, encoded: Encoded, points: Tensor) -> tuple[list[Mixture], Belief]:
        """Of all parameters and of outcomes at points, decoded in one pass."""
        both, frame = self.decode_with_points(encoded, points)
        parameters, predicted = both.split([len(self.spec.parameters), points.shape[-2]])
        return self._guesses_of(encoded, parameters), self.predicted(encoded, predicted, frame)

    def decode_with_points(self, encoded: Encoded, points: Tensor) -> tuple[Decoded, Frame | None]:
        """The parameters, then points, with the points' frame."""
        tokens, frame = self._point_tokens(encoded, points)
        return self.decode(encoded, torch.cat([self._parameter_tokens(encoded), tokens], 2)), frame

    def _parameter_tokens(self, encoded: Encoded) -> Tensor:
        tokens = self._with_prior(encoded, self.parameter_embedding.expand(*encoded.shape, -1, -1))
        out: Tensor = self.context_advice(tokens, encoded.advice.context_features()[:, :, None])
        return out

    def _point_tokens(self, encoded: Encoded, points: Tensor) -> tuple[Tensor, Frame | None]:
        features, frame = encoded.advice.at_points(points)
        tokens = self.design_embedder(_grouped(points)) + self.prediction_marker
        tokens = self._with_prior(encoded, tokens.expand(*encoded.shape, *tokens.shape[2:]))
        return self.point_advice(tokens, features), frame

    def _with_prior(self, encoded: Encoded, tokens: Tensor) -> Tensor:
        """Tokens that know the experiment's priors."""
        prior = self._prior(encoded)
        return tokens if self.prior_tokens is None else tokens + self.prior_tokens(prior)

    def _prior(self, encoded: Encoded) -> Frame | None:
        """The experiment's priors, where the network can take them."""
        if self.prior_tokens is None or encoded.prior is not None:
            return encoded.prior
        own = own_prior(encoded.shape[0], len(self.spec.parameters))
        return Frame(*own[:, None].unbind(-1))

    def posterior_of(self, encoded: Encoded, decoded: Decoded) -> Mixture:
        """As `posterior`, of parameters that were decoded already."""
        return self._guesses_of(encoded, decoded)[-1]

    def _guesses_of(self, encoded: Encoded, decoded: Decoded) -> list[Mixture]:
        read, prior = self._head_inputs(encoded, decoded), self._frame_of_prior(encoded)
        seen = read if prior is None else seen_from(prior, *read)
        belief: Mixture = self.posterior_head(*seen)
        frame = encoded.advice.parameter_frame() if prior is None else prior
        found = [self._cut(encoded, belief if frame is None else belief.moved(*frame))]
        for step in self.newton_steps:
            guess = moments_of(found[-1])
            found.append(self._cut(encoded, step(read[0], self.evidence(encoded, guess), guess)))
        return found

    def _frame_of_prior(self, encoded: Encoded) -> Frame | None:
        """The units of posteriors; discrete parameters get theirs in `_cut`."""
        prior = self._prior(encoded)
        return None if prior is None else Frame(*self.spec.parameters.uncut(*prior))

    def _cut(self, encoded: Encoded, belief: Mixture, asked: Tensor | None = None) -> Mixture:
        """What a belief says of discrete parameters, under the experiment's priors."""
        prior = encoded.prior
        if prior is not None and asked is not None:
            prior = Frame(*(part.expand(*encoded.shape, -1).gather(2, asked) for part in prior))
        return self.spec.parameters.cut(belief, asked, prior)

    @torch.no_grad()
    def evidence(self, encoded: Encoded, guess: Frame) -> Evidence:
        """What the emulator makes of the data near a guess [batch, group, parameter]."""
        points = encoded.fold(points_around(guess))
        log_prob = self._emulated(points, encoded.context, 1)
        if encoded.bias is not None:
            log_prob = log_prob.masked_fill(encoded.bias[:, 0, ..., 1:] < 0, 0.0)
        if encoded.extra is not None:
            log_prob = torch.cat([log_prob, self._emulated(points, encoded.extra, 2)], -1)
        return Evidence.of(encoded.unfold(log_prob), guess, self._frame_of_prior(encoded))

    def learned_likelihood(self, theta: Tensor, designs: Tensor, outcomes: Tensor) -> Tensor:
        """Log likelihoods [..., n] by the emulator, of theta [..., parameter]; axes broadcast."""
        if self.emulator is None:
            raise InternalError("this network has learned no likelihood")
        return self.emulator.log_prob(theta, Context(designs, outcomes))

    def _emulated(self, theta: Tensor, seen: Context, groups: int) -> Tensor:
        """Log likelihoods [row, group, point, n] of theta [row, group, point, parameter].

        What was seen has one row for all groups of an episode (`groups` 1), or one each (2).
        """
        rows = theta.shape[:groups]
        designs, outcomes = (
            part.reshape(*rows, *[1] * (3 - groups), *part.shape[1:])
            for part in (seen.designs, seen.outcomes)
        )
        return self.learned_likelihood(theta, designs, outcomes)

    def joint(self, encoded: Encoded, marginals: Mixture | None = None) -> Joint:
        """The joint posterior of all parameters; `marginals` where they are at hand."""
        return Joint(self, encoded, marginals or self.posterior(encoded))

    def given(
        self,
        encoded: Encoded,
        asked: Tensor,
        known: Known,
        marginals: Frame,
        evidence: Evidence | None,
    ) -> Mixture:
        """Beliefs [batch, group, n] about parameters with indices `asked`, each given its `known`.

        `marginals` [batch, group, parameter] are q's moments at the same data, and `evidence` is
        what a learned likelihood says there.
        """
        conditional = self.conditional
        if conditional is None:
            raise InternalError("this network knows each parameter by itself only")
        known = known._replace(values=self.spec.parameters.settled(known.values))
        relative = conditional.relative(known, marginals)
        tokens = self._with_prior(encoded, self.parameter_embedding[asked])
        tokens = tokens + conditional.tokens(known, relative)
        inputs = self._head_inputs(encoded, self.decode(encoded, tokens))
        own = Frame(*(part.gather(2, asked) for part in marginals))
        guess = None
        if evidence is not None:
            guess = evidence.conditional(conditional.away(known, marginals), known.mask, asked)
        zoom = (*inputs, None)[2]
        belief = conditional.belief(inputs[0], inputs[1], zoom, relative, own, guess)
        return self._cut(encoded, belief, asked)

    def _head_inputs(self, encoded: Encoded, decoded: Decoded) -> list[Tensor]:
        """What a head turns into a belief about parameters."""
        if self.zoom is None:
            return self._read(encoded, decoded)
        tokens = self.norm(decoded.states[-1])
        zoomed, raw = self.zoom(tokens, decoded.raw, self._seen(encoded))
        return [encoded.unfold(part) for part in (zoomed.tokens, raw, zoomed.log_scale)]

    def predicted(self, encoded: Encoded, decoded: Decoded, frame: Frame | None) -> Belief:
        """As `predictive`, of points that were decoded already."""
        belief: Belief = self.predictive_head(*self._read(encoded, decoded))
        return belief if frame is None else belief.moved(*frame)

    def _read(self, encoded: Encoded, decoded: Decoded) -> list[Tensor]:
        """What a head turns into a belief."""
        return [self.norm(encoded.unfold(decoded.states[-1])), encoded.unfold(decoded.raw)]

    def _seen(self, encoded: Encoded) -> RawObservations:
        """The raw observations: they lie behind the values that attention mixes."""
        head_dim = self.config.width // self.config.heads
        raw = encoded.keys[-1].values[:, 0, None, 1:, head_dim:]
        bias = None if encoded.bias is None else encoded.bias[:, 0, ..., 1:]
        if encoded.own is None:
            return RawObservations.of(raw, bias)
        own = encoded.own[-1].values[:, 0, ..., head_dim:]
        raw = raw.expand(-1, own.shape[1], -1, -1)
        if bias is not None:
            bias = F.pad(bias, (0, own.shape[2]))
        return RawObservations.of(torch.cat([raw, own], 2), bias)

    # The next design.

    def scores(self, encoded: Encoded, summary: Summary, goal: Goal, candidates: Tensor) -> Tensor:
        """The policy's logits [batch, group, n] of candidates [batch, (group,) n, design]."""
        policy = self.learned_policy
        read = self._policy_read(encoded, summary, goal)
        candidates = _grouped(candidates)
        effects = self._effects(candidates, summary.moments)
        tokens = policy.tokens(candidates, summary.moments, effects)
        tokens = tokens.expand(*encoded.shape, *tokens.shape[2:])
        if encoded.shape[1] == 1 and not self.is_learning:
            tokens = policy.decode_many(tokens[:, 0], read)[:, None]
        else:
            tokens = encoded.unfold(policy.decode(encoded.fold(tokens), read))
        return policy.score(tokens)

    @torch.no_grad()
    def _effects(self, candidates: Tensor, moments: Tensor | None) -> Tensor | None:
        if self.emulator is None or moments is None:
            return None
        mean, log_std = moments.chunk(2, -1)
        return self.emulator.effects_of(Frame(mean, log_std.exp()), candidates)

    def propose(self, encoded: Encoded, summary: Summary, goal: Goal) -> Proposal:
        """The box policy's point."""
        policy = self.learned_policy
        token: Tensor = policy.proposal.expand(*encoded.shape, 1, -1)
        read = self._policy_read(encoded, summary, goal)
        token = encoded.unfold(policy.decode(encoded.fold(token), read))[:, :, 0]
        return policy.propose(token, summary.moments)

    @property
    def learned_policy(self) -> PolicyHalf:
        """The policy half, where designs are not left to a plug-in."""
        if self.policy is None:
            raise InternalError("this network leaves the choice of designs to its plug-in")
        return self.policy

    @property
    def is_learning(self) -> bool:
        """Whether gradients are to reach the policy."""
        return torch.is_grad_enabled() and self.learned_policy.norm.weight.requires_grad

    def _policy_read(self, encoded: Encoded, summary: Summary, goal: Goal) -> Read:
        if encoded.own is not None:
            raise InternalError("a policy cannot read observations that one group alone has made")
        policy, keys = self.learned_policy, encoded.policy_keys
        if keys is None or self.is_learning:
            keys = policy.keys(encoded.hidden)
        states, bias = self._goal_states(encoded, summary, goal)
        goals = [layer.keys(state) for layer, state in zip(policy.layers, states, strict=True)]
        return Read(keys, encoded.bias, goals, bias)

    def _goal_states(
        self, encoded: Encoded, summary: Summary, goal: Goal
    ) -> tuple[list[Tensor], Tensor]:
        """The goal's tokens as the policy's layers read them, and which of them count how much."""
        depth, weight = self.config.policy_layers, goal.log_weight
        states = (summary.with_points or summary.decoded).states[-depth:]
        if summary.with_points is None and goal.points.shape[1]:
            with torch.no_grad():
                tokens, _ = self._point_tokens(encoded, goal.points)
                points = self.decode(encoded, tokens).states[-depth:]
            states = [torch.cat(pair, 2) for pair in zip(states, points, strict=True)]
        bias = encoded.fold(weight[:, None].expand(*encoded.shape, -1))
        return states, bias[:, None, :, None, :]


def moments_of(belief: Mixture) -> Frame:
    """Means and standard deviations, as a frame that passes no gradient."""
    mean, std = belief.moments()
    return Frame(mean.detach(), std.detach().clamp_min(STD_FLOOR))


def _grouped(points: Tensor) -> Tensor:
    """Points [batch, (group,) n, design] with an axis of groups."""
    return points[:, None] if points.dim() == 3 else points
