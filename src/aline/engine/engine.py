"""What answers questions about data: the interface that policies and experiments use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from aline.engine.runners import Array, Runner
from aline.episodes import Context, Goal
from aline.model import Belief, Encoded, Joint, Mixture, Network, Proposal, Summary
from aline.model.advice import Advice, Frame, NoAdvisor
from aline.model.prior import own_prior

MANY = 64  # observations from which on a plug-in reads all anew: adding one by one takes longer


class Engine(Protocol):
    """Reads data and answers, for a batch of episodes; its states are values that never change."""

    network: Network  # the one behind it, for its settings

    # Before any data; `prior` [batch, parameter, 2] where it is not the task's own.
    def begin(self, batch: int, prior: Tensor | None = None) -> Any: ...

    def read(self, context: Context) -> Any: ...  # after a whole context

    # After one more observation: design [batch, design], outcome [batch, *event].
    def extend(self, state: Any, design: Tensor, outcome: Tensor) -> Any: ...

    def context(self, state: Any) -> Context: ...  # the data, on the network's scale

    def posterior(self, state: Any) -> Mixture: ...  # marginals [batch, parameter]

    def joint(self, state: Any) -> Joint: ...  # of all parameters together

    # Beliefs [batch, n] about outcomes at points [batch, n, design].
    def predictive(self, state: Any, points: Tensor) -> Belief: ...

    # Logits [batch, n] of candidates [batch, n, design].
    def scores(self, state: Any, goal: Goal, candidates: Tensor) -> Tensor: ...

    def propose(self, state: Any, goal: Goal) -> Proposal: ...  # a box policy's [batch, design]


class Playing:
    """Episodes under way; what is known of their parameters is computed when it is asked for."""

    def __init__(self, network: Network, encoded: Encoded):
        self.network, self.encoded = network, encoded

    @cached_property
    def summary(self) -> Summary:
        """What the policy reads of the parameters."""
        return self.network.summary(self.encoded)


class BatchEngine:
    """The network itself, for many episodes at once: an observation is added in constant work."""

    def __init__(self, network: Network):
        self.network = network

    def begin(self, batch: int, prior: Tensor | None = None) -> Playing:
        """The state before any data."""
        return Playing(self.network, self.network.begin(batch, prior))

    def read(self, context: Context, advice: Advice | None = None) -> Playing:
        """The state after a whole context."""
        return Playing(self.network, self.network.encode(context, advice))

    def extend(self, state: Playing, design: Tensor, outcome: Tensor) -> Playing:
        """With one more observation; a search for the posterior goes on from where it was."""
        grown = self.network.extend(state.encoded, design, outcome)
        before = state.summary.searched if self.network.searches else None
        if before is not None:
            grown = replace(grown, searched=self.network.search_on(grown, before))
        return Playing(self.network, grown)

    def context(self, state: Playing) -> Context:
        """The data of a state."""
        return state.encoded.context

    def posterior(self, state: Playing) -> Mixture:
        """Marginal posteriors [batch, parameter]."""
        return self.network.posterior_of(state.encoded, state.summary.decoded)[:, 0]

    def joint(self, state: Playing) -> Joint:
        """The joint posterior."""
        return self.network.joint(state.encoded)

    def predictive(self, state: Playing, points: Tensor) -> Belief:
        """Beliefs [batch, n] about outcomes."""
        return self.network.predictive(state.encoded, points)[:, 0]

    def scores(self, state: Playing, goal: Goal, candidates: Tensor) -> Tensor:
        """Logits [batch, n]."""
        if self.network.policy is None:
            return state.encoded.advice.scores(candidates, goal)[:, 0]
        return self.network.scores(state.encoded, state.summary, goal, candidates)[:, 0]

    def propose(self, state: Playing, goal: Goal) -> Proposal:
        """The box policy's points [batch, design]."""
        return self.network.propose(state.encoded, state.summary, goal)[:, 0]


class Answers(NamedTuple):
    """What one run of a graph found, and what it was asked."""

    goal: Goal | None
    candidates: Tensor | None
    found: Mapping[str, Array]


class Data:
    """What running experiments have measured. The last answers are kept: they may serve again.

    A plug-in takes observations in only when it is asked: a replay adds thousands before that.
    """

    def __init__(self, context: Context, advisor: NoAdvisor, known: Advice | None = None):
        """`known` is advice of the first observations, or of all."""
        self.context, self._advisor, self._known = context, advisor, known
        self.answers: Answers | None = None

    @property
    def advice(self) -> Advice:
        """What a plug-in says of the data."""
        if self._known is None or self.context.length - self._known.length > MANY:
            self._known = self._advisor.read(self.context)
        for row in range(self._known.length, self.context.length):
            design, outcome = self.context.designs[:, row], self.context.outcomes[:, row]
            self._known = self._known.extend(design, outcome)
        return self._known

    def extend(self, design: Tensor, outcome: Tensor) -> Data:
        """With one more observation."""
        return Data(self.context.append(design, outcome), self._advisor, self._known)

    @classmethod
    def together(cls, several: list[Data]) -> Data:
        """Of several experiments as one batch; shorter ones are padded. None has a plug-in."""
        contexts = [data.context for data in several]
        most = max(context.length for context in contexts)
        mask = torch.tensor([[i < c.length for i in range(most)] for c in contexts])
        padded = Context(_padded([c.designs for c in contexts], most),
                         _padded([c.outcomes for c in contexts], most), mask,
                         _priors([c.prior for c in contexts]))  # fmt: skip
        return cls(padded, NoAdvisor())

    def share(self, several: list[Data]) -> None:
        """Give each of the experiments that this is made of its row of the answers."""
        if self.answers is not None:
            for row, data in enumerate(several):
                found = {name: all_[row : row + 1] for name, all_ in self.answers.found.items()}
                data.answers = Answers(None, None, found)


class LiveEngine:
    """A network's graph, for experiments under way: stateless, a run for each question."""

    def __init__(self, network: Network, runner: Runner):
        self.network, self.runner = network, runner

    def begin(self, batch: int = 1, prior: Tensor | None = None) -> Data:
        """The state before any data."""
        spec = self.network.spec
        return self.read(Context.empty(batch, len(spec.design), spec.outcome.event_shape, prior))

    def read(self, context: Context, advice: Advice | None = None) -> Data:
        """The state after a whole context."""
        return Data(context, self.network.advisor, advice)

    def extend(self, state: Data, design: Tensor, outcome: Tensor) -> Data:
        """With one more observation."""
        return state.extend(design, outcome)

    def context(self, state: Data) -> Context:
        """The data of a state."""
        return state.context

    def posterior(self, state: Data) -> Mixture:
        """Marginal posteriors [batch, parameter]."""
        found = _named("posterior_", (state.answers or self.ask(state)).found)
        if not found:  # a graph has no outputs for a task without parameters
            return Mixture(*torch.zeros(3, len(state.context.designs), 0, 1))
        prior = state.context.prior
        frame = None if prior is None else (prior[..., 0], prior[..., 1])
        return self.network.spec.parameters.cut(Mixture(**found), prior=frame)

    def joint(self, state: Data) -> Joint:
        """The joint posterior, by the network itself: draws are not for the time of a trial."""
        return self.network.joint(self.network.encode(state.context, state.advice))

    def predictive(self, state: Data, points: Tensor) -> Belief:
        """Beliefs [batch, n] about outcomes."""
        none = torch.zeros(len(points), len(self.network.spec.parameters), dtype=torch.bool)
        goal = Goal(none, points, torch.ones(points.shape[:2], dtype=torch.bool))
        found = self.run(state, goal, None, about_points=True)
        return self.network.spec.outcome.restore(_named("prediction_", found))

    def scores(self, state: Data, goal: Goal, candidates: Tensor) -> Tensor:
        """Logits [batch, n]."""
        if self.network.policy is None:
            return state.advice.scores(candidates, goal)[:, 0]
        return torch.from_numpy(self.ask(state, goal, candidates).found["scores"])

    def propose(self, state: Data, goal: Goal) -> Proposal:
        """The box policy's points [batch, design]."""
        found = _named("proposal_", self.ask(state, goal).found)
        return Proposal(found["mean"], found["log_std"], torch.zeros(()))

    def ask(
        self, state: Data, goal: Goal | None = None, candidates: Tensor | None = None
    ) -> Answers:
        """One run, or the last one's answers if they were to the same question."""
        last = state.answers
        if last is None or last.goal is not goal or last.candidates is not candidates:
            last = state.answers = Answers(goal, candidates, self.run(state, goal, candidates))
        return last

    def run(
        self,
        state: Data,
        goal: Goal | None,
        candidates: Tensor | None,
        about_points: bool = False,
    ) -> dict[str, Array]:
        """Everything that the graph gives for a goal, its points, and candidates."""
        names = self.runner.inputs
        given = self._context(state.context) | self._goal(goal, len(state.context.designs))
        if "candidates" in names:
            given["candidates"] = _rows(candidates, given["points"].shape)
        if "prior" in names:
            given["prior"] = self._prior(state.context)
        if "point_features" in names:
            given |= self._advice(state.advice, goal, about_points)
        return self.runner.run(given)

    def _context(self, context: Context) -> dict[str, Array]:
        """With at least one row, as a graph has no empty axes; the mask hides it."""
        designs, outcomes = context.designs.numpy(), context.outcomes.numpy()
        mask = np.ones(outcomes.shape[:2], bool) if context.mask is None else context.mask.numpy()
        if not context.length:
            designs = np.zeros((len(designs), 1, designs.shape[2]), np.float32)
            outcomes = np.zeros((len(designs), 1, *outcomes.shape[2:]), np.float32)
            mask = np.zeros((len(designs), 1), bool)
        return {"designs": designs, "outcomes": outcomes, "mask": mask}

    def _prior(self, context: Context) -> Array:
        """The experiments' priors, else the task's own."""
        own = own_prior(len(context.designs), len(self.network.spec.parameters))
        return (own if context.prior is None else context.prior).contiguous().numpy()

    def _goal(self, goal: Goal | None, batch: int) -> dict[str, Array]:
        design, parameters = len(self.network.spec.design), len(self.network.spec.parameters)
        given = {
            "points": np.zeros((batch, 1, design), np.float32),
            "points_mask": np.zeros((batch, 1), bool),
        }
        wanted = np.zeros((batch, parameters), bool) if goal is None else goal.parameters.numpy()
        if goal is not None and goal.points.shape[1]:
            given = {"points": goal.points.numpy(), "points_mask": goal.points_mask.numpy()}
        return given | ({"parameters": wanted} if parameters else {})

    def _advice(self, advice: Advice, goal: Goal | None, about_points: bool) -> dict[str, Array]:
        """What a plug-in says; of parameters only where the question is not about points alone."""
        batch, advisor, spec = advice.shape[0], self.network.advisor, self.network.spec
        given = {
            "context_features": np.zeros((batch, 1, advisor.context_width), np.float32),
            "point_features": np.zeros((batch, 1, 1, advisor.point_width), np.float32),
            "point_frame": np.ones((2, batch, 1, 1), np.float32),
            "parameter_frame": np.ones((2, batch, 1, len(spec.parameters)), np.float32),
        }
        if goal is not None and goal.points.shape[1]:
            features, frame = advice.at_points(goal.points)
            given["point_features"] = features.numpy()
            given |= _framed("point_frame", frame)
        if not about_points:
            given["context_features"] = advice.context_features().numpy()
            given |= _framed("parameter_frame", advice.parameter_frame())
        return given


def _priors(several: list[Tensor | None]) -> Tensor | None:
    """Of several experiments [1, parameter, 2] as one batch."""
    chosen = [prior for prior in several if prior is not None]
    if not chosen:
        return None
    own = own_prior(1, chosen[0].shape[1])
    return torch.cat([own if prior is None else prior for prior in several])


def _framed(name: str, frame: Frame | None) -> dict[str, Array]:
    return {} if frame is None else {name: torch.stack(list(frame)).numpy()}


def _named(prefix: str, found: Mapping[str, Array]) -> dict[str, Tensor]:
    """The outputs whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(prefix): torch.from_numpy(value)
        for name, value in found.items()
        if name.startswith(prefix)
    }


def _rows(candidates: Tensor | None, shape: tuple[int, ...]) -> Array:
    """The candidates, or one as a placeholder."""
    if candidates is None:
        return np.zeros((shape[0], 1, shape[2]), np.float32)
    return candidates.numpy()


def _padded(parts: list[Tensor], length: int) -> Tensor:
    """Rows of several experiments [1, n, ...] as one batch."""
    whole = parts[0].new_zeros(len(parts), length, *parts[0].shape[2:])
    for row, part in zip(whole, parts, strict=True):
        row[: part.shape[1]] = part[0]
    return whole
