"""A trained network for live use: exported, run, and asked."""

from aline.engine.engine import BatchEngine, Data, Engine, LiveEngine
from aline.engine.export import export
from aline.engine.runners import OnnxRunner, TorchRunner, prepare_forks, runner_for
from aline.model import Model


def engine_for(model: Model) -> LiveEngine:
    """What runs experiments with a model."""
    return LiveEngine(model.network, runner_for(model))


__all__ = [
    "BatchEngine",
    "Data",
    "Engine",
    "LiveEngine",
    "OnnxRunner",
    "TorchRunner",
    "engine_for",
    "export",
    "prepare_forks",
    "runner_for",
]
