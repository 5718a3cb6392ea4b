"""The network: context in; posterior, predictions and the next design out.

The inference half (model/inference.py) knows the parameters and predicts outcomes. The policy half
(psi) has an embedder and layers of its own (model/policy.py), which read what the inference half
made of the context and of the goal. A network keeps nothing of what it reads: all that it knows of
a context is `Encoded`, and what it made of the parameters there is a `Summary`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from aline.episodes import Context, Goal
from aline.errors import InternalError
from aline.model.advice import Frame
from aline.model.config import ModelConfig
from aline.model.encoder import Encoded, append_keys
from aline.model.evidence import Searched
from aline.model.guesses import Guesses
from aline.model.inference import Decoded, Inference, grouped
from aline.model.policy import PolicyHalf, Proposal, Read
from aline.spaces.outcomes.mixture import STD_FLOOR
from aline.tasks import Spec


class Summary(NamedTuple):
    """What q knows of the parameters, as the policy reads it."""

    decoded: Decoded
    moments: Tensor | None  # means, then log spreads, [batch, group, 2 * parameter]
    places: Tensor | None = None  # of several guesses, log weight and means [..., guess, 1 + p]
    searched: Searched | None = None  # where a search for the posterior ended
    with_points: Decoded | None = None  # the parameters, then the goal's points, if at hand


class Network(Inference):
    """Both halves, for one task."""

    def __init__(self, spec: Spec, config: ModelConfig):
        super().__init__(spec, config)
        self.policy: PolicyHalf | None = None
        if config.policy != "plugin":
            summarised = len(spec.parameters) if config.shortcuts else 0
            effects = self.emulator.effects(config.guesses) if self.emulator and summarised else 0
            self.policy = PolicyHalf(spec.design, summarised, effects, config)

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

    # What the policy reads, and the next design.

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
        return Summary(decoded, moments, places, guesses.searched)

    def scores(self, encoded: Encoded, summary: Summary, goal: Goal, candidates: Tensor) -> Tensor:
        """The policy's logits [batch, group, n] of candidates [batch, (group,) n, design]."""
        policy = self.learned_policy
        read = self._policy_read(encoded, summary, goal)
        candidates = grouped(candidates)
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
