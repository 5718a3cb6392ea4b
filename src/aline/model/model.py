"""A trained model: the network and the card that says where it came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aline import __version__
from aline.errors import CheckpointError, InputError
from aline.files import read_tensors, write_atomically, write_tensors
from aline.model.config import ModelConfig
from aline.model.network import Network
from aline.tasks import Spec, get

WEIGHTS, CARD = "weights.safetensors", "card.json"


@dataclass(frozen=True, eq=False)
class Model:
    """What `train` returns and `load` reads.

    >>> import aline
    >>> model = aline.load("detection")
    >>> model.spec.parameters.names
    ('threshold', 'slope', 'guess', 'lapse')
    """

    network: Network
    training: Mapping[str, Any] = field(default_factory=dict)
    measurements: Mapping[str, Any] = field(default_factory=dict)
    source: Path | None = None  # the folder it was loaded from, where it can be found again
    units: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # by `in_units`
    trained: Model | None = None  # the same model in the units that it was trained in

    def __repr__(self) -> str:
        weights = sum(parameter.numel() for parameter in self.network.parameters())
        kind = f"{weights:,} weights, {self.network.config.policy} policy"
        where = "" if self.source is None else f", from {self.source.name}"
        return f"<Model {self.spec.in_words()}; {kind}{where}>"

    @property
    def spec(self) -> Spec:
        """The task without its simulator.

        >>> model.spec.horizon
        64
        """
        return self.network.spec

    def in_units(self, **ranges: tuple[float, float]) -> Model:
        """The same model for another range of designs, with parameters in the same units.

        For tasks that are the same on any axis: load("detection").in_units(stimulus=(-40, 0)).

        >>> model.in_units(stimulus=(-40, 0)).spec.design.words()
        'stimulus in [-40, 0]'
        """
        (axis, *_), config = self.spec.design.names, self.spec.config
        if set(ranges) != {axis} or not {"low", "high"} <= set(config):
            raise InputError(
                f"in_units is for a task whose axis may have any range, as detection's stimulus, "
                f"got {', '.join(ranges) or 'nothing'} for {self.spec.name}: train it with the "
                "range that you need"
            )
        low, high = (float(end) for end in ranges[axis])
        if not low < high:
            raise InputError(f"a range goes from low to high, got ({low:g}, {high:g}) for {axis}")
        task = get(self.spec.name, **{**config, "low": low, "high": high})
        network = Network(task.fitted().spec, self.network.config)
        network.load_state_dict(self.network.state_dict())
        network.eval().requires_grad_(False)
        trained = self.trained or self
        return replace(self, network=network, units={axis: (low, high)}, trained=trained)

    @cached_property
    def digest(self) -> str:
        """What identifies a model: all that its posterior depends on.

        Not the rest of its card, where measurements and fields of later versions may be added, and
        not its units: a network does not see them.

        >>> model.digest == model.in_units(stimulus=(-40, 0)).digest
        True
        """
        if self.trained is not None:
            return self.trained.digest
        task = self.spec.to_json()
        scales = {part: task[part] for part in ("parameters", "design", "outcome")}
        found = hashlib.sha256(json.dumps(scales, sort_keys=True).encode())
        for name, tensor in sorted(self.network.state_dict().items()):
            found.update(name.encode())
            found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return found.hexdigest()

    def spent(self, what: str) -> float | None:
        """Its training's "seconds", "episodes" or "rounds", with those that it went on from.

        >>> model.spent("seconds") > 60
        True
        """
        stages, stage = [], self.training
        while stage:
            stages.append(stage)
            stage = stage.get("after", {})
        known = [stage[what] for stage in stages if what in stage]
        return sum(known) if known else None

    def card(self) -> dict[str, Any]:
        """Everything but the weights, as plain data.

        >>> sorted(model.card())
        ['aline', 'measurements', 'model', 'task', 'training']
        """
        return {
            "aline": __version__,
            "task": self.spec.to_json(),
            "model": self.network.config.to_json(),
            "training": dict(self.training),
            "measurements": dict(self.measurements),
        }

    def save(self, folder: str | Path) -> Path:
        """Write the weights with their card, and a readable copy of the card beside them.

        >>> import tempfile
        >>> folder = model.save(f"{tempfile.mkdtemp()}/mine")
        >>> sorted(path.name for path in folder.iterdir())
        ['card.json', 'weights.safetensors']
        """
        folder, card = Path(folder), self.card()
        write_tensors(folder / WEIGHTS, self.network.state_dict(), card)
        write_atomically(folder / CARD, (json.dumps(card, indent=2) + "\n").encode())
        return folder

    def export(self, path: str | Path | None = None) -> Path:
        """Write the network as an ONNX file that runs anywhere, by default beside the weights.

        Experiments find it there and run faster (results/latency.json). It takes about half a
        minute; docs/format.md says what goes in and what comes out.

        >>> model.export("mine.onnx")  # doctest: +SKIP
        PosixPath('mine.onnx')
        """
        export = import_module("aline.engine.export").export  # which is above this package
        written: Path = export(self, path)
        return written

    @classmethod
    def load(cls, folder: str | Path) -> Model:
        """Read a folder that `save` wrote.

        >>> import tempfile
        >>> Model.load(model.save(f"{tempfile.mkdtemp()}/mine")).digest == model.digest
        True
        """
        path = Path(folder) / WEIGHTS
        tensors, card = read_tensors(path)
        try:
            network = _read_network(card, tensors)
            training, measurements = dict(card["training"]), dict(card["measurements"])
        except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError,
                ValueError) as error:  # fmt: skip
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise CheckpointError(
                f"{path} does not fit its card ({first}): restore it or train again"
            ) from None
        network.eval().requires_grad_(False)
        return cls(network, training, measurements, Path(folder).resolve())


def _read_network(card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Network:
    config = ModelConfig.from_json(card["model"])
    _check_sizes(config, sum(tensor.numel() for tensor in tensors.values()))
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise CheckpointError(f"its weights {name} are not finite")
    network = Network(Spec.from_json(card["task"]), config)
    network.load_state_dict(tensors)
    return network


def _check_sizes(config: ModelConfig, weights: int) -> None:
    """Refuse a card of a network that these weights cannot be of, before it is built.

    A layer has more weights than its width times its hidden units, and whatever else is counted
    more than its width.
    """
    for name, size in [*vars(config).items(), *config.plugin_settings.items()]:
        is_count = isinstance(size, int) and not isinstance(size, bool)
        if is_count and not 0 <= size * max(config.width, 1) <= max(weights, config.width**2):
            raise CheckpointError(f"it has {weights:,} weights, and its card says {name} {size:,}")
    if config.layers * config.width * (config.width + config.feedforward) > weights:
        raise CheckpointError(
            f"it has {weights:,} weights, and its card says {config.layers:,} layers of width "
            f"{config.width:,}"
        )


def fresh(spec: Spec, config: ModelConfig, generator: torch.Generator) -> Network:
    """A network with initial weights that depend only on the generator."""
    with initial_weights(int(torch.randint(2**62, (), generator=generator))):
        return Network(spec, config)


@contextmanager
def initial_weights(seed: int) -> Iterator[None]:
    """Within, new modules have weights that depend only on the seed.

    They draw from torch's global stream, which is forked, seeded, and put back.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
