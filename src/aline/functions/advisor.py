"""What Gaussian processes say of a context, as a plug-in of the network (model/advice.py)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aline.episodes import Context, Goal
from aline.errors import InputError
from aline.functions.bank import Bank, KernelBank
from aline.functions.hypotheses import Guess, Hypotheses
from aline.model.advice import Advice, CandidateAdvice, Frame, NoAdvisor, PointAdvice
from aline.tasks import Spec


class FunctionAdvisor(NoAdvisor):
    """A bank of Gaussian processes and hypotheses about the parameters of one."""

    def __init__(self, spec: Spec, kernels: int, hypotheses: int = 0):
        super().__init__()
        if not spec.outcome.is_linear:
            raise InputError("functions have real outcomes without limits: leave the plug-in out")
        self.bank = KernelBank.spread(len(spec.design), kernels)
        self.hypotheses = Hypotheses(spec, hypotheses) if hypotheses else None
        self.bank.hypotheses = self.hypotheses
        self.point_width, self.gain_width = self.bank.point_features, self.bank.worth_features
        self.context_width = self.bank.context_features
        self.score_terms, self.has_frames = 1, False
        if self.hypotheses is not None:
            self.context_width += self.hypotheses.guess_features
            self.score_terms, self.has_frames = 2, True

    def read(self, context: Context) -> FunctionAdvice:
        """Take a whole context in, for one group that sees all of it."""
        visible = None if context.mask is None else context.mask[:, None]
        return FunctionAdvice(self, self.bank.read(context, visible, None))

    def in_units(self, engine: Any, noise: float | None) -> Any:
        """An engine that standardises outcomes as they arrive."""
        from aline.functions.units import StandardisedEngine

        return StandardisedEngine(engine, noise)


class FunctionAdvice(Advice):
    """A context as the bank holds it."""

    def __init__(self, advisor: FunctionAdvisor, bank: Bank):
        super().__init__(*bank.seen.shape)
        self.advisor, self.bank = advisor, bank
        self._guess: Guess | None = None

    @property
    def guess(self) -> Guess | None:
        """What hypotheses say of the parameters, if there are any."""
        hypotheses = self.advisor.hypotheses
        if self._guess is None and hypotheses is not None:
            with torch.no_grad():
                self._guess = hypotheses.guess(self.bank.supposed)
        return self._guess

    def context_features(self) -> Tensor:
        """Of the bank, and of what hypotheses say."""
        features = self.bank.describe()
        if self.guess is None:
            return features
        return torch.cat([features, self.guess.describe()], -1)

    def parameter_frame(self) -> Frame | None:
        """By the hypotheses."""
        return None if self.guess is None else Frame(self.guess.mean, self.guess.std)

    def at_points(self, points: Tensor) -> PointAdvice:
        """What the bank expects there."""
        expected = self.bank.predict(_grouped(points))
        return PointAdvice(expected.features, Frame(expected.mean, expected.std))

    @torch.no_grad()
    def of_candidates(self, candidates: Tensor, goal: Goal) -> CandidateAdvice:
        """How much of the goal's variance would go, and what would be learned of parameters."""
        candidates = _grouped(candidates)
        features = self.bank.predict(candidates).features
        shape = features.shape[:3]
        gain = torch.zeros(*shape, self.advisor.gain_width)
        terms = torch.zeros(*shape, self.advisor.score_terms)
        if goal.points.shape[1]:
            gain = self.bank.worth(candidates, goal.points, goal.points_mask)
            has_points = goal.points_mask.any(1)[:, None, None]
            terms[..., 0] = gain[..., -1] * has_points
        if self.advisor.hypotheses is not None and goal.has_parameters:
            hypotheses = self.advisor.hypotheses
            terms[..., 1] = hypotheses.telling(self.bank.supposed, candidates, goal.parameters)
        return CandidateAdvice(features, gain, terms)

    def regrouped(self, visible: Tensor, extra: Context | None = None) -> FunctionAdvice:
        """For groups that see prefixes of the whole context."""
        if extra is None:
            return FunctionAdvice(self.advisor, self.bank.prefixes(visible))
        bank = self.bank
        whole = Context(bank.designs, bank.outcomes)
        return FunctionAdvice(self.advisor, self.advisor.bank.read(whole, visible, extra))

    def extend(self, design: Tensor, outcome: Tensor) -> FunctionAdvice:
        """With one more observation."""
        return FunctionAdvice(self.advisor, self.bank.extend(design, outcome))

    def restated(self, outcomes: Tensor) -> FunctionAdvice:
        """The same designs with other outcomes [batch, context]."""
        return FunctionAdvice(self.advisor, self.bank.restated(outcomes))


def advisor(spec: Spec, kernels: int = 12, hypotheses: int = 0) -> FunctionAdvisor:
    """The plug-in for a task, by its settings."""
    return FunctionAdvisor(spec, kernels, hypotheses)


def _grouped(points: Tensor) -> Tensor:
    return points[:, None] if points.dim() == 3 else points
