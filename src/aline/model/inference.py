"""The inference half (phi): beliefs about parameters and outcomes from a context.

Target tokens read the context that the encoder took in, and heads make beliefs of them. Where there
is a learned likelihood, the posterior is then guessed again with what it says of the data. Results
come as [batch, group, ...].
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aline.episodes import Context
from aline.errors import InternalError
from aline.model.advice import Frame
from aline.model.attention import Reading
from aline.model.config import ModelConfig
from aline.model.emulator import Emulator
from aline.model.encoder import Encoded, Encoder
from aline.model.evidence import Evidence, Searched
from aline.model.guesses import ByValue, Guesses
from aline.model.heads import Head
from aline.model.joint import Conditional, Joint, Known
from aline.model.learned_posterior import LearnedPosterior
from aline.model.newton import NewtonStep
from aline.model.prior import PriorTokens, own_prior, seen_from
from aline.model.search import unit_points
from aline.model.tokens import Added
from aline.model.zoom import RawObservations, Zoom
from aline.spaces import Belief, Real
from aline.spaces.outcomes.mixture import Mixture
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


class Inference(Encoder):
    """What the network knows of parameters and outcomes, for one task."""

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
        self.by_value = ByValue.of(spec.parameters, config.guesses)
        self.search_points: Tensor
        if config.newton_steps and len(spec.parameters) and config.plugin is None:
            self.emulator = Emulator(spec.outcome, design, spec.parameters, config)
            steps = range(config.newton_steps)
            one = width, hidden, -(-config.components // config.guesses), config.guesses
            self.newton_steps.extend(NewtonStep(*one) for _ in steps)
            points = unit_points(len(spec.parameters), max(1, config.search_stages))
            self.register_buffer("search_points", points, persistent=False)
        self.prior_tokens = PriorTokens(len(spec.parameters), config) if config.priors else None
        self.conditional: Conditional | None = None
        if config.joint and len(spec.parameters) > 1 and config.plugin is None:
            self.conditional = Conditional(len(spec.parameters), raw + centres, config)
        self.point_advice = Added(self.advisor.point_width, hidden, width)
        self.context_advice = Added(self.advisor.context_width, hidden, width)

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
        tokens = self.design_embedder(grouped(points)) + self.prediction_marker
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
        if self.searches:
            return [*found, self._after_search(encoded, read[0], found[0])]
        start = found[-1].log_weight, found[-1].frame
        for step in self.newton_steps:
            evidence = self.evidence(encoded, start[1])
            found.append(self._settled(encoded, step(read[0], evidence, *start)))
            start = found[-1].log_weight.detach(), self.places_of(found[-1])
        return found

    @property
    def searches(self) -> bool:
        """Whether posteriors are searched for with the learned likelihood."""
        return self.config.search_stages > 0 and len(self.newton_steps) > 0

    def _after_search(self, encoded: Encoded, tokens: Tensor, first: Guesses) -> Guesses:
        """One step from each of the places where a search ends."""
        searched = encoded.searched or self._search(encoded, first.frame)
        places, evidence = searched.places, searched.evidence
        if evidence is None:
            evidence = self.evidence(encoded, places.frame)
        guesses = self.newton_steps[0](tokens, evidence, places.log_weight, places.frame)
        searched = searched._replace(evidence=evidence)
        return replace(self._settled(encoded, guesses), searched=searched)

    def _search(self, encoded: Encoded, guess: Frame) -> Searched:
        prior = self._frame_of_prior(encoded)
        return self.learned_posterior.search(encoded, prior, guess, self.search_points)

    def search_on(self, encoded: Encoded, before: Searched) -> Searched:
        """From where a search ended before the last observation."""
        prior = self._frame_of_prior(encoded)
        return self.learned_posterior.search_on(encoded, prior, before, self.search_points)

    def evidence(self, encoded: Encoded, guess: Frame) -> Evidence:
        """What a learned likelihood makes of the data near guesses [batch, group, guess, p]."""
        return self.learned_posterior.evidence(encoded, self._frame_of_prior(encoded), guess)

    def places_of(self, guesses: Guesses) -> Frame:
        """Where to look at the data from: a guess about one value of a parameter looks there."""
        if self.by_value is None or guesses.log_weight.shape[-1] == 1:
            return guesses.frame
        return self.by_value.pinned(guesses.frame)

    def _settled(self, encoded: Encoded, guesses: Guesses) -> Guesses:
        """What guesses say of discrete parameters."""
        if self.spec.parameters.cells is None:
            return guesses
        parts, odds = guesses.parts, None
        if self.by_value is not None and guesses.log_weight.shape[-1] > 1:
            parts, odds = self.by_value.settled(parts), self.by_value.odds(encoded.prior)
            odds = None if odds is None else odds.expand(parts.shape)
        return replace(guesses, parts=self._cut(encoded, parts), odds=odds)

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

    def learned_likelihood(self, theta: Tensor, designs: Tensor, outcomes: Tensor) -> Tensor:
        """Log likelihoods [..., n] by the emulator, of theta [..., parameter]; axes broadcast."""
        return self.learned_emulator.log_prob(theta, Context(designs, outcomes))

    @property
    def learned_posterior(self) -> LearnedPosterior:
        """What the emulator makes of data."""
        return LearnedPosterior(self.learned_emulator, self.by_value, self.config.guesses)

    @property
    def learned_emulator(self) -> Emulator:
        """The emulator, where there is one."""
        if self.emulator is None:
            raise InternalError("this network has learned no likelihood")
        return self.emulator

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


def grouped(points: Tensor) -> Tensor:
    """Points [batch, (group,) n, design] with an axis of groups."""
    return points[:, None] if points.dim() == 3 else points
