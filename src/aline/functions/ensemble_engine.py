"""The ensemble of kernels on its own, to see what a network adds to it."""

from __future__ import annotations

import torch
from torch import Tensor

from aline.engine import BatchEngine
from aline.engine.engine import Playing
from aline.model import Mixture


class EnsembleEngine(BatchEngine):
    """Answers by the ensemble's mean and standard deviation; of the network nothing is asked.

    Where the policy is the plug-in's (`ModelConfig(policy="plugin")`) it chooses the designs too.
    """

    def predictive(self, state: Playing, points: Tensor) -> Mixture:
        """One normal a point."""
        frame = state.encoded.advice.at_points(points).frame
        assert frame is not None
        mean, std = (part[:, 0, :, None] for part in frame)
        return Mixture(torch.zeros_like(mean), mean, std)
