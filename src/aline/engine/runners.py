"""What runs a graph: ONNX Runtime on the exported file, or plain torch on the same definition."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import torch

from aline.engine.graph import Graph
from aline.errors import CheckpointError
from aline.model import Model, Network

Array = np.ndarray[Any, np.dtype[Any]]
GRAPH = "graph.onnx"


class Runner(Protocol):
    """Maps named arrays to named arrays."""

    inputs: tuple[str, ...]

    def run(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """All outputs of the graph."""
        ...


class TorchRunner:
    """The network's own definition, where ONNX Runtime or an exported file is missing."""

    def __init__(self, network: Network):
        self.graph = Graph(network)
        self.inputs = tuple(self.graph.inputs)

    @torch.inference_mode()
    def run(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """All outputs of the graph."""
        found = self.graph(*(torch.from_numpy(given[name]) for name in self.inputs))
        return {name: value.numpy() for name, value in found.items()}


class OnnxRunner:
    """An exported file, run by ONNX Runtime on one thread.

    Several experiments share a machine best when each keeps to one. A fork begins a session of its
    own: another thread may have held a lock of the one that it inherited, which then stays locked.
    """

    def __init__(self, path: Path):
        self._graph = path.read_bytes()  # a fork may come when the file is another one
        self._sessions: dict[int, Any] = {}  # by process; one that was inherited is never ended
        self._spare: Any = None  # in which nothing runs before a fork
        self.digest = self.session.get_modelmeta().custom_metadata_map.get("digest")
        self.inputs = tuple(each.name for each in self.session.get_inputs())
        self.outputs = [each.name for each in self.session.get_outputs()]

    @property
    def session(self) -> Any:
        """ONNX Runtime's session of this process."""
        process = os.getpid()
        if process not in self._sessions:
            self._sessions[process] = self._spare or _session(self._graph)
        return self._sessions[process]

    def prepare_forks(self) -> None:
        """Begin the session of forks now, which takes longer than most that they compute."""
        if self._spare is None:
            self._spare = _session(self._graph)

    def run(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """All outputs of the graph."""
        found = self.session.run(self.outputs, {name: given[name] for name in self.inputs})
        return dict(zip(self.outputs, found, strict=True))


def _session(graph: bytes) -> Any:
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


_RUNNERS: WeakKeyDictionary[Model, Runner] = WeakKeyDictionary()


def runner_for(model: Model) -> Runner:
    """The fastest there is for a model; the same one for all experiments of a process.

    A graph knows nothing of units, so a model has one in whatever units it is used.
    """
    trained = model.trained or model
    if trained not in _RUNNERS:
        _RUNNERS[trained] = _exported(trained) or TorchRunner(trained.network)
    return _RUNNERS[trained]


def prepare_forks(model: Model) -> None:
    """See that forks of this process can run a model at once, whatever its threads do meanwhile."""
    runner = runner_for(model)
    if isinstance(runner, OnnxRunner):
        runner.prepare_forks()


def _exported(model: Model) -> OnnxRunner | None:
    """The file beside a model's weights, if there is one of these weights that can run here."""
    path = None if model.source is None else model.source / GRAPH
    if path is None or not path.is_file() or find_spec("onnxruntime") is None:
        return None
    try:
        runner = OnnxRunner(path)
    except Exception:  # which classes ONNX Runtime raises is its own business
        raise CheckpointError(
            f"{path} is damaged: remove it, or write it again with `aline export`"
        ) from None
    return runner if runner.digest == model.digest else None
