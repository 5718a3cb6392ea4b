"""An exported file: the same numbers as torch gives, and used only for the weights it is of."""

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from small import everything, goal_for, seeded, simulated_context
from torch import Tensor
from web import node
from web.test_local import compare, done

from aline import load
from aline.app.web import export_web
from aline.engine import LiveEngine, OnnxRunner, TorchRunner, engine_for, export, runner_for
from aline.engine.graph import VARYING, Graph
from aline.engine.runners import GRAPH
from aline.episodes import Context, Goal, goal_of, predictions
from aline.errors import UserError
from aline.experiment import Experiment
from aline.model import Model, ModelConfig, fresh
from aline.tasks import get

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

TASK = get("location").fitted()
TINY = {"width": 8, "heads": 2, "layers": 1, "policy_layers": 1, "feedforward": 8}
CONFIG = ModelConfig(
    **TINY, components=2, octaves=1, zoom_layers=1, newton_steps=1, search_stages=2, guesses=2
)  # type: ignore[arg-type]
TOLERANCE = 1e-5


def tiny(seed: int = 0) -> Model:
    network = fresh(TASK.spec, CONFIG, seeded(seed)).eval().requires_grad_(False)
    for parameter in network.parameters():
        parameter.mul_(1.5)
    return Model(network)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model with its graph beside its weights; once, as an export takes long."""
    saved = Model.load(tiny().save(tmp_path_factory.mktemp("model")))
    assert saved.source is not None
    assert export(saved) == saved.source / GRAPH
    return saved


def engines(model: Model) -> tuple[LiveEngine, LiveEngine]:
    assert model.source is not None
    runners = OnnxRunner(model.source / GRAPH), TorchRunner(model.network)
    one, other = (LiveEngine(model.network, runner) for runner in runners)
    return one, other


def answers(engine: LiveEngine, context: Context, goal: Goal, count: int) -> list[Tensor]:
    state = engine.read(context)
    space, batch = TASK.spec.design, len(context.designs)
    points, candidates = (space.sample(batch, n, seeded(n)) for n in (4, count))
    return [
        everything(engine.posterior(state)),
        everything(engine.predictive(state, points)),
        engine.scores(state, goal, candidates),
    ]


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("length", [0, 1, 5, 9])
@pytest.mark.parametrize("count", [1, 7, 200])
def test_the_file_gives_what_torch_gives(model: Model, batch: int, length: int, count: int) -> None:
    context = simulated_context(TASK, batch, length)
    at = predictions(at={"x": [0.1, 0.5, 0.9], "y": [0.3, 0.2, 0.1]})
    for goal in (goal_for(TASK.spec, ("source_x",), 1), goal_of(TASK.spec, ["source_y", at])):
        found, expected = (
            answers(engine, context, goal.repeat(batch), count) for engine in engines(model)
        )
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=TOLERANCE, atol=TOLERANCE)


def test_padding_does_not_matter_in_the_file(model: Model) -> None:
    onnx, plain = engines(model)
    context = simulated_context(TASK, 3, 9)
    mask = torch.arange(9) < torch.tensor([[9], [1], [0]])
    padded = Context(context.designs, context.outcomes, mask)
    goal = goal_for(TASK.spec, ("source_x",), 3)
    found, expected = (answers(engine, padded, goal, 7) for engine in (onnx, plain))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=TOLERANCE, atol=TOLERANCE)
    for row, length in enumerate((9, 1, 0)):
        rows = slice(row, row + 1)
        alone = Context(context.designs[rows, :length], context.outcomes[rows, :length])
        own = everything(onnx.posterior(onnx.read(alone)))
        torch.testing.assert_close(found[0][rows], own, rtol=TOLERANCE, atol=TOLERANCE)


def test_the_file_describes_itself(model: Model) -> None:
    """Names, axes and types as the definition has them, the card, and whose weights these are."""
    assert model.source is not None
    session = OnnxRunner(model.source / GRAPH).session
    inputs = Graph(model.network).inputs
    assert [each.name for each in session.get_inputs()] == list(inputs)
    for each in session.get_inputs():
        wanted = inputs[each.name]
        assert each.shape == list(wanted.axes)
        assert all(axis in VARYING for axis in each.shape if isinstance(axis, str))
        assert each.type == ("tensor(bool)" if wanted.dtype == torch.bool else "tensor(float)")
    card = session.get_modelmeta().custom_metadata_map
    assert card["digest"] == model.digest
    assert json.loads(card["card"])["task"] == model.card()["task"]


def test_the_file_has_none_of_the_slow_operators(model: Model) -> None:
    """In ONNX Runtime they took a fifth of a run and more (results/latency.json)."""
    assert model.source is not None
    onnx = import_module("onnx")
    graph = onnx.load(model.source / GRAPH).graph
    values = {one.name: onnx.numpy_helper.to_array(one).tolist() for one in graph.initializer}
    slow = [node.op_type for node in graph.node if values.get(next(iter(node.input), "")) == 2.0]
    assert "Pow" not in slow  # powers of two, in the place of Exp
    # Writing into a part of a tensor.
    assert "ScatterElements" not in {node.op_type for node in graph.node}


def test_experiments_run_the_file_beside_the_weights(model: Model) -> None:
    assert isinstance(runner_for(model), OnnxRunner)
    assert runner_for(model) is engine_for(model).runner
    experiment = Experiment(model, seed=1)
    plain = Experiment(tiny(), seed=1)
    assert isinstance(experiment._state.engine.runner, OnnxRunner)  # type: ignore[attr-defined]
    assert isinstance(plain._state.engine.runner, TorchRunner)  # type: ignore[attr-defined]
    for number in range(3):
        asked = [each.ask() for each in (experiment, plain)]
        # Of candidates that are as good but for rounding, either may be chosen.
        assert asked[0].design == pytest.approx(asked[1].design, abs=1e-2)
        for each, trial in zip((experiment, plain), asked, strict=True):
            each.tell(trial, 0.5 * number, design={"x": 0.1 * number, "y": 0.2})
    assert experiment.posterior().mean == pytest.approx(plain.posterior().mean, abs=1e-4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_fork_has_a_session_of_its_own() -> None:
    """One in thirty waited for ever: another thread held a lock of the session it inherited."""
    shipped = load("psychometric").source
    assert shipped is not None
    runner = OnnxRunner(shipped / GRAPH)
    given, found = id(runner.session), os.pipe()
    if os.fork() == 0:
        os.write(found[1], b"1" if id(runner.session) == given else b"0")
        os._exit(0)
    os.wait()
    assert os.read(found[0], 1) == b"0"
    assert id(runner.session) == given
    for end in found:
        os.close(end)


def test_a_page_runs_the_file_too(model: Model, tmp_path: Path) -> None:
    """With all that `aline train` gives models of your own, and no shipped model has."""
    export_web(model, tmp_path / "own")
    steps: list[list[Any]] = [["ask"], ["tell", 0, 0.7], ["posterior"], ["ask"], ["tell", 1, -0.1]]
    steps += [["posterior"], ["predict", {"x": [0.1, 0.8], "y": [0.5, 0.2]}, 0.9], ["ask"], ["ask"]]
    scene = {"folder": str(tmp_path / "own"), "settings": {"seed": 3}, "steps": steps}
    (played,) = node.run("play.mjs", [scene], tmp_path)
    experiment = Experiment(model, seed=3)
    for step, heard in zip(steps, played["heard"], strict=True):
        compare(heard, done(experiment, *step), str(step))


def test_a_graph_of_other_weights_is_not_used(model: Model, tmp_path: Path) -> None:
    assert model.source is not None
    other = Model.load(tiny(seed=1).save(tmp_path))
    (tmp_path / GRAPH).write_bytes((model.source / GRAPH).read_bytes())
    assert isinstance(runner_for(other), TorchRunner)
    same = Model.load(tiny(seed=0).save(tmp_path))
    assert isinstance(runner_for(same), OnnxRunner)


def test_without_the_runtime_torch_runs(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model.source is not None
    again = Model.load(model.source)
    monkeypatch.setattr("aline.engine.runners.find_spec", lambda name: None)
    assert isinstance(runner_for(again), TorchRunner)


def test_an_export_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = import_module("aline.engine.export")
    find = module.find_spec
    monkeypatch.setattr(module, "find_spec", lambda n: None if n == "onnxscript" else find(n))
    with pytest.raises(UserError) as caught:
        tiny().export(tmp_path / "tiny.onnx")
    assert str(caught.value) == "an export needs onnxscript: pip install 'aline[export]'"
    assert list(tmp_path.iterdir()) == []


def test_a_model_in_memory_has_no_place_of_its_own() -> None:
    with pytest.raises(UserError, match=r"say where to: model.export\('decay.onnx'\)"):
        tiny().export()
