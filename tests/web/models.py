"""Models as folders that a page loads."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from small import SIZES, seeded

import aline
from aline import zoo
from aline.model import Model, ModelConfig, fresh
from aline.tasks import get

Folders = Callable[[str], Path]  # of a model, by its name


@cache
def model_named(name: str) -> Model:
    """A shipped model; of detection an untrained one, where its weights are not there yet."""
    if (Path(zoo.__file__).parent / name).is_dir():
        return aline.load(name)
    task, config = get(name).fitted(), ModelConfig(priors=True, search_stages=2, guesses=2, **SIZES)  # type: ignore[arg-type]
    return Model(fresh(task.spec, config, seeded(0)).eval().requires_grad_(False))
