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
from aline.model.guesses import Guesses, spread_points, two_sides
from aline.model.heads import Head
from aline.model.joint import Conditional, Joint, Known
from aline.model.policy import PolicyHalf, Proposal, Read
from aline.model.prior import PriorTokens, own_prior, seen_from
from aline.model.tokens import Added
from aline.model.zoom import RawObservations, Zoom
from aline.spaces import Belief, Real
from aline.spaces.outcomes.mixture import STD_FLOOR, Mixture
from aline.tasks import Spec

WIDENED = 1.2  # by how much points are spread beyond a guess, which may be too narrow
ROWS = 20  # whose likelihoods are emulated at a time


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
    places: Tensor | None = None  # of several guesses, log weight and means [..., guess, 1 + p]
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
        self.spread_points: Tensor
        if config.newton_steps and len(spec.parameters) and config.plugin is None:
            self.emulator = Emulator(spec.outcome, design, spec.parameters, config.width)
            steps = range(config.newton_steps)
            one = width, hidden, -(-config.components // config.guesses), config.guesses
            self.newton_steps.extend(NewtonStep(*one) for _ in steps)
            self.register_buffer(
                "spread_points", spread_points(len(spec.parameters)), persistent=False
            )
        self.prior_tokens = PriorTokens(len(spec.parameters), config) if config.priors else None
        self.conditional: Conditional | None = None
        if config.joint and len(spec.parameters) > 1 and config.plugin is None:
            self.conditional = Conditional(len(spec.parameters), raw + centres, config)
        self.policy: PolicyHalf | None = None
        if config.policy != "plugin":
            summarised = len(spec.parameters) if config.shortcuts else 0
            effects = self.emulator.effects(config.guesses) if self.emulator and summarised else 0
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
            return self.summary_of(decoded, self.guesses_of(encoded, decoded)[-1])

    def summary_of(self, decoded: Decoded, guesses: Guesses) -> Summary:
        """As `summary`, where the posterior is at hand: its means and log spreads."""
        if self.policy is None or self.policy.summary is None:
            return Summary(decoded, None)
        mean, std = guesses.marginals.moments()
        moments = torch.cat([mean, std.clamp_min(STD_FLOOR).log()], -1)
        if self.emulator is None or self.config.guesses == 1:
            return Summary(decoded, moments)
        places = torch.cat([guesses.log_weight[..., None], guesses.frame.mean], -1)
        return Summary(decoded, moments, places)

    def posterior(self, encoded: Encoded) -> Mixture:
        """Marginal posteriors [batch, group, parameter] on the network's scale."""
        return self.guesses(encoded)[-1].marginals

    def guesses(self, encoded: Encoded) -> list[Guesses]:
        """The posterior as first guessed, then after each step: all are learned."""
        return self.guesses_of(encoded, self.decode_parameters(encoded))

    def predictive(self, encoded: Encoded, points: Tensor) -> Belief:
        """Beliefs [batch, group, n] about outcomes at points [batch, (group,) n, design]."""
        tokens, frame = self._point_tokens(encoded, points)
        return self.predicted(encoded, self.decode(encoded, tokens), frame)

    def beliefs(self, encoded: Encoded, points: Tensor) -> tuple[list[Guesses], Belief]:
        """Of all parameters and of outcomes at points, decoded in one pass."""
        both, frame = self.decode_with_points(encoded, points)
        parameters, predicted = both.split([len(self.spec.parameters), points.shape[-2]])
        return self.guesses_of(encoded, parameters), self.predicted(encoded, predicted, frame)

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
        return self.guesses_of(encoded, decoded)[-1].marginals

    def guesses_of(self, encoded: Encoded, decoded: Decoded) -> list[Guesses]:
        """As `guesses`, of parameters that were decoded already."""
        read, prior = self._head_inputs(encoded, decoded), self._frame_of_prior(encoded)
        seen = read if prior is None else seen_from(prior, *read)
        belief: Mixture = self.posterior_head(*seen)
        frame = encoded.advice.parameter_frame() if prior is None else prior
        belief = belief if frame is None else belief.moved(*frame)
        found = [self._settled(encoded, Guesses.single(belief))]
        start = found[-1].log_weight, found[-1].frame
        if self.newton_steps and self.config.guesses == 2:
            start = self._cut_in_two(encoded, found[-1].frame)
        for step in self.newton_steps:
            evidence = self.evidence(encoded, start[1])
            found.append(self._settled(encoded, step(read[0], evidence, *start)))
            start = found[-1].log_weight.detach(), found[-1].frame
        return found

    @torch.no_grad()
    def _cut_in_two(self, encoded: Encoded, guess: Frame) -> tuple[Tensor, Frame]:
        """Where the posterior lies, by points all over a guess [batch, group, 1, parameter].

        Log weights [batch, group, 2] and frames of two places.
        """
        unit = WIDENED * self.spread_points
        points = guess.mean + guess.std * unit
        log_prob = self._emulated_context(encoded, encoded.fold(points))
        if encoded.extra is not None:
            extra = self._emulated(encoded.fold(points), encoded.extra, 2)
            log_prob = torch.cat([log_prob, extra], -1)
        height = encoded.unfold(log_prob.sum(-1))
        prior, away = self._frame_of_prior(encoded), points
        if prior is not None:
            away = (points - prior.mean[:, :, None]) / prior.std[:, :, None]
        height = height - 0.5 * away.square().sum(-1) + 0.5 * (unit / WIDENED).square().sum(-1)
        log_weight, sides = two_sides(unit.expand(points.shape), height)
        mean = guess.mean + guess.std * sides.mean
        return log_weight, Frame(mean, guess.std * sides.std)

    def _settled(self, encoded: Encoded, guesses: Guesses) -> Guesses:
        """What guesses say of discrete parameters."""
        if self.spec.parameters.cells is None:
            return guesses
        return replace(guesses, parts=self._cut(encoded, guesses.parts))

    def _frame_of_prior(self, encoded: Encoded) -> Frame | None:
        """The units of posteriors; discrete parameters get theirs in `_cut`."""
        prior = self._prior(encoded)
        return None if prior is None else Frame(*self.spec.parameters.uncut(*prior))

    def _cut(self, encoded: Encoded, belief: Mixture, asked: Tensor | None = None) -> Mixture:
        """What a belief says of discrete parameters, under the experiment's priors."""
        prior = encoded.prior
        if prior is not None and asked is not None:
            prior = Frame(*(part.expand(*encoded.shape, -1).gather(2, asked) for part in prior))
        elif prior is not None:
            prior = Frame(*(part[:, :, None] for part in prior))
        return self.spec.parameters.cut(belief, asked, prior)

    @torch.no_grad()
    def evidence(self, encoded: Encoded, guess: Frame) -> Evidence:
        """What the emulator makes of the data near guesses [batch, group, guess, parameter]."""
        around = points_around(guess)
        points = encoded.fold(around.flatten(2, 3))
        log_prob = self._emulated_context(encoded, points)
        if encoded.extra is not None:
            log_prob = torch.cat([log_prob, self._emulated(points, encoded.extra, 2)], -1)
        prior = self._frame_of_prior(encoded)
        if prior is not None:
            prior = Frame(*(part[:, :, None] for part in prior))
        each = encoded.unfold(log_prob).unflatten(2, around.shape[2:4])
        return Evidence.of(each, guess, prior)

    def _emulated_context(self, encoded: Encoded, points: Tensor) -> Tensor:
        """Log likelihoods [row, group, point, n] of what each group sees; zero of what it does not.

        Groups are prefixes, mostly: what lies behind a group's last observation is left out, and a
        few rows at a time stay in the processor's cache.
        """
        if encoded.bias is None:
            return self._emulated(points, encoded.context, 1)
        hidden = encoded.bias[:, 0, ..., 1:] < 0  # [row, group, 1, n]
        if encoded.shape[1] == 1:
            return self._emulated(points, encoded.context, 1).masked_fill(hidden, 0.0)
        found = points.new_zeros(*points.shape[:3], hidden.shape[-1])
        for group in range(points.shape[1]):
            seen = (~hidden[:, group]).any(0)[0].nonzero()
            length = int(seen[-1]) + 1 if len(seen) else 0
            for start in range(0, len(points), ROWS):
                rows = slice(start, start + ROWS)
                whole = encoded.context
                part = Context(whole.designs[rows, :length], whole.outcomes[rows, :length])
                some = self._emulated(points[rows, group, None], part, 1)
                found[rows, group, :, :length] = some[:, 0]
        return found.masked_fill_(hidden, 0.0)

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

    def joint(self, encoded: Encoded, guesses: Guesses | None = None) -> Joint:
        """The joint posterior of all parameters; `guesses` where they are at hand."""
        return Joint(self, encoded, guesses or self.guesses(encoded)[-1])

    def given(self, joint: Joint, asked: Tensor, known: Known) -> Mixture:
        """Beliefs [batch, group, n] about parameters `asked`, each given its `known`."""
        conditional, encoded, marginals = self.conditional, joint.encoded, joint.frame
        if conditional is None:
            raise InternalError("this network knows each parameter by itself only")
        known = known._replace(values=self.spec.parameters.settled(known.values))
        relative = conditional.relative(known, marginals)
        tokens = self._with_prior(encoded, self.parameter_embedding[asked])
        tokens = tokens + conditional.tokens(known, relative)
        inputs = self._head_inputs(encoded, self.decode(encoded, tokens))
        own = Frame(*(part.gather(2, asked) for part in marginals))
        guess = None if joint.evidence is None else joint.guess_given(asked, known, own)
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
        effects = self._effects(candidates, summary)
        tokens = policy.tokens(candidates, summary.moments, effects)
        tokens = tokens.expand(*encoded.shape, *tokens.shape[2:])
        if encoded.shape[1] == 1 and not self.is_learning:
            tokens = policy.decode_many(tokens[:, 0], read)[:, None]
        else:
            tokens = encoded.unfold(policy.decode(encoded.fold(tokens), read))
        return policy.score(tokens)

    @torch.no_grad()
    def _effects(self, candidates: Tensor, summary: Summary) -> Tensor | None:
        if self.emulator is None or summary.moments is None:
            return None
        mean, log_std = summary.moments.chunk(2, -1)
        return self.emulator.effects_of(Frame(mean, log_std.exp()), summary.places, candidates)

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


def _grouped(points: Tensor) -> Tensor:
    """Points [batch, (group,) n, design] with an axis of groups."""
    return points[:, None] if points.dim() == 3 else points
