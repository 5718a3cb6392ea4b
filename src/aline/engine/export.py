"""A network as a file that ONNX Runtime and others run."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from aline.engine.graph import VARYING, Graph
from aline.engine.runners import GRAPH
from aline.errors import UserError
from aline.files import write_atomically
from aline.model import Model

NEEDED = ("onnx", "onnxscript")


def can_export() -> bool:
    """Whether the packages that an export needs are installed."""
    return not _missing()


def _missing() -> list[str]:
    return [name for name in NEEDED if find_spec(name) is None]


def export(model: Model, path: str | Path | None = None) -> Path:
    """Write a model's graph, by default beside its weights, where experiments find it.

    It takes about half a minute. docs/format.md says what goes in and what comes out.
    """
    if _missing():
        raise UserError(f"an export needs {' and '.join(_missing())}: pip install 'aline[export]'")
    if path is None and model.source is None:
        raise UserError("say where to: model.export('decay.onnx'), or save the model first")
    path = Path(path or model.source / GRAPH)  # type: ignore[operator]
    write_atomically(path, to_bytes(model))
    return path


def to_bytes(model: Model) -> bytes:
    """The file's content."""
    graph = Graph(model.network).eval()
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            graph,
            tuple(each.example() for each in graph.inputs.values()),
            dynamic_shapes=(_varying(graph),),
            input_names=list(graph.inputs),
            output_names=_outputs(graph),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    return _described(_without_repeats(program.model_proto), model)


def _without_repeats(proto: Any) -> Any:
    """With each weight, and each result that the tracing computed twice, only once."""
    ir = import_module("onnx_ir")
    merges = import_module("onnx_ir.passes.common")
    program = ir.from_proto(proto)
    for node in list(program.graph):
        _fix_shape(program.graph, node)
    merges.DeduplicateHashedInitializersPass()(program)
    merges.CommonSubexpressionEliminationPass()(program)
    merges.RemoveUnusedNodesPass()(program)
    return ir.to_proto(program)


def _fix_shape(graph: Any, node: Any) -> None:
    """Give a Reshape its sizes as numbers, where they are: 0 for one that stays, -1 for another.

    The exporter computes them in nodes of their own where more than one size varies.
    """
    ir = import_module("onnx_ir")
    if node.op_type != "Reshape" or node.inputs[1].const_value is not None:
        return
    before, after = (list(value.shape or ()) for value in (node.inputs[0], node.outputs[0]))
    if not after or 0 in after:
        return
    old = [str(n) for n in before] + ["?"] * len(after)  # no name is "None", which is unknown
    sizes = [
        n if isinstance(n, int) else 0 if old[i] == str(n) != "None" else -1
        for i, n in enumerate(after)
    ]
    if sizes.count(-1) > 1:
        return
    name = f"{node.outputs[0].name}_sizes"
    tensor = ir.tensor(sizes, dtype=ir.DataType.INT64, name=name)
    constant = ir.Value(name=name, const_value=tensor)
    graph.register_initializer(constant)
    node.replace_input_with(1, constant)
    node.attributes.pop("allowzero", None)


def _outputs(graph: Graph) -> list[str]:
    """Their names, in order."""
    with torch.no_grad():
        return list(graph(*(each.example() for each in graph.inputs.values())))


def _varying(graph: Graph) -> tuple[dict[int, Any], ...]:
    """The axes of each input that vary."""
    sizes = {name: torch.export.Dim(name, min=1) for name in VARYING}
    return tuple(
        {i: sizes[axis] for i, axis in enumerate(each.axes) if isinstance(axis, str)}
        for each in graph.inputs.values()
    )


def _described(proto: Any, model: Model) -> bytes:
    """With the model's card and digest, without notes of where each node is from."""
    for node in proto.graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    del proto.graph.value_info[:]
    card = {name: model.card()[name] for name in ("aline", "task", "model")}
    for key, value in {"card": json.dumps(card), "digest": model.digest}.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value
    content: bytes = proto.SerializeToString()
    return content


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter has much to say that is no user's business."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
