"""Adaptive experiments: the next measurement and the posterior from one small network."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aline.episodes.goals import in_turn, predictions
    from aline.errors import AlineError, UserError
    from aline.experiment.experiment import Experiment
    from aline.functions.regressor import ActiveRegressor
    from aline.spaces import (
        Binary,
        Box,
        Categorical,
        Count,
        Grid,
        Levels,
        Log,
        Only,
        Ordinal,
        Outcomes,
        Pool,
        Real,
    )
    from aline.tasks.psychometric import Psychometric
    from aline.tasks.table_files import read_tables
    from aline.tasks.table_task import TableTask
    from aline.tasks.task import Task
    from aline.training.train import train
    from aline.zoo import load

__version__ = "0.1.0"

__all__ = [
    "ActiveRegressor",
    "AlineError",
    "Binary",
    "Box",
    "Categorical",
    "Count",
    "Experiment",
    "Grid",
    "Levels",
    "Log",
    "Only",
    "Ordinal",
    "Outcomes",
    "Pool",
    "Psychometric",
    "Real",
    "TableTask",
    "Task",
    "UserError",
    "__version__",
    "in_turn",
    "load",
    "predictions",
    "read_tables",
    "train",
]

# Where each public name lives. They are imported on first use: `import aline` stays instant,
# and a command such as `aline --help` does not wait for torch.
_HOMES = {
    "ActiveRegressor": "aline.functions.regressor",
    "AlineError": "aline.errors",
    "Binary": "aline.spaces",
    "Box": "aline.spaces",
    "Categorical": "aline.spaces",
    "Count": "aline.spaces",
    "Experiment": "aline.experiment.experiment",
    "Grid": "aline.spaces",
    "Levels": "aline.spaces",
    "Log": "aline.spaces",
    "Only": "aline.spaces",
    "Ordinal": "aline.spaces",
    "Outcomes": "aline.spaces",
    "Pool": "aline.spaces",
    "Psychometric": "aline.tasks.psychometric",
    "Real": "aline.spaces",
    "TableTask": "aline.tasks.table_task",
    "Task": "aline.tasks.task",
    "UserError": "aline.errors",
    "load": "aline.zoo",
    "in_turn": "aline.episodes.goals",
    "predictions": "aline.episodes.goals",
    "read_tables": "aline.tasks.table_files",
    "train": "aline.training.train",
}

_PACKAGES = ("baselines", "episodes", "evaluation", "experiment", "psychopy", "spaces", "tasks")


if not TYPE_CHECKING:  # a type checker that sees __getattr__ would accept any name

    def __getattr__(name: str) -> object:
        """Import a public name, or a package such as aline.tasks, when it is first used."""
        if name in _PACKAGES:
            return import_module(f"aline.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'aline' has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """List the public names, imported yet or not."""
    return sorted({*globals(), *__all__})
