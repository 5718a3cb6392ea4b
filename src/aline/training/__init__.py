"""How it learns: losses, schedule, loop."""

from aline.training.config import TrainingConfig
from aline.training.train import train

__all__ = ["TrainingConfig", "train"]
