"""A file is read whole and unharmed, or not at all."""

import ast
import json
import math
import time
from pathlib import Path
from typing import Any, TypeGuard

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from small import largest_difference, posterior_of, random_context, seeded, small_model
from torch.distributions import Dirichlet, Gamma

import aline
from aline.errors import CheckpointError
from aline.files import FORMAT, read_card, read_tensors, write_atomically, write_tensors
from aline.model import Model
from aline.model.model import CARD, WEIGHTS
from aline.spaces import Grid, Real
from aline.tasks import Task, get

unusual = Task(
    name="unusual",
    parameters={"share": Dirichlet(torch.ones(3)), "rate": Gamma(2.0, 1.0)},
    design=Grid(a=[0.1, 0.2, 0.7], b=[1, 2]),
    outcome=Real(),
    simulate=lambda theta, design, generator: theta["rate"] * design["a"],
    horizon=3,
    units={"rate": "1/s"},
)


@pytest.mark.parametrize("task", [get("psychometric"), get("location"), unusual])
@pytest.mark.parametrize("context", ["independent", "full"])
def test_round_trip_is_exact(task: Task, context: str, tmp_path: Path) -> None:
    model = small_model(task, context=context)
    model = Model(model.network, {"seed": 3}, {"gap": 0.01})
    model.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")
    assert again.card() == model.card()
    data = random_context(model.spec, 2, 4)
    one, other = (posterior_of(m.network, data) for m in (model, again))
    assert torch.equal(one.mean, other.mean)
    assert torch.equal(one.std, other.std)
    assert not any(p.requires_grad for p in again.network.parameters())


def test_card_beside_the_weights_is_readable(tmp_path: Path) -> None:
    model = small_model()
    model.save(tmp_path)
    card = json.loads((tmp_path / CARD).read_text())
    assert card["aline"] == aline.__version__
    assert card["task"]["name"] == "psychometric"
    assert read_card(tmp_path / WEIGHTS) == {"format": FORMAT, **card}


def test_saving_twice_replaces(tmp_path: Path) -> None:
    small_model().save(tmp_path)
    other = small_model("location")
    other.save(tmp_path)
    assert Model.load(tmp_path).spec.name == "location"
    assert sorted(path.name for path in tmp_path.iterdir()) == [CARD, WEIGHTS]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_atomically(path, "not bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    small_model().save(folder)
    return (folder / WEIGHTS).read_bytes()


def load_bytes(content: bytes, folder: Path) -> Model:
    folder.mkdir(exist_ok=True)
    (folder / WEIGHTS).write_bytes(content)
    return Model.load(folder)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_damaged(whole: bytes, tmp_path: Path, share: float) -> None:
    with pytest.raises(CheckpointError, match=r"damaged|not written by aline"):
        load_bytes(whole[: int(share * len(whole))], tmp_path)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), bit=st.integers(0, 7), in_header=st.booleans())
def test_a_flipped_bit_is_noticed_wherever_it_is(
    whole: bytes, tmp_path: Path, data: st.DataObject, bit: int, in_header: bool
) -> None:
    header = 8 + int.from_bytes(whole[:8], "little")
    place = data.draw(
        st.integers(0, header - 1) if in_header else st.integers(header, len(whole) - 1)
    )
    flipped = bytearray(whole)
    flipped[place] ^= 1 << bit
    try:
        model = load_bytes(bytes(flipped), tmp_path)
    except CheckpointError:
        return
    # A space of the header's padding, say: whatever changed, the model did not.
    assert in_header
    original = load_bytes(whole, tmp_path / "original")
    assert model.card() == original.card()
    for name, tensor in original.network.state_dict().items():
        assert torch.equal(model.network.state_dict()[name], tensor)


def test_a_foreign_file_is_named_so(tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(3)}, tmp_path / WEIGHTS)
    with pytest.raises(CheckpointError, match="was not written by aline"):
        Model.load(tmp_path)


def test_a_newer_file_asks_for_an_upgrade(tmp_path: Path) -> None:
    write_tensors(tmp_path / WEIGHTS, {"a": torch.zeros(1)}, {"format": FORMAT + 1})
    message = f"has format {FORMAT + 1}, this aline reads up to {FORMAT}: upgrade aline"
    with pytest.raises(CheckpointError, match=message):
        Model.load(tmp_path)


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no weights at"):
        Model.load(tmp_path / "nowhere")


@pytest.mark.parametrize("missing", ["task", "model", "training"])
def test_a_card_without_a_part(tmp_path: Path, missing: str) -> None:
    model = small_model()
    card = {key: value for key, value in model.card().items() if key != missing}
    write_tensors(tmp_path / WEIGHTS, model.network.state_dict(), card)
    with pytest.raises(CheckpointError, match=f"does not fit its card \\('{missing}'\\)"):
        Model.load(tmp_path)


def test_weights_of_another_size(tmp_path: Path) -> None:
    model = small_model()
    tensors = {name: tensor[:1] for name, tensor in model.network.state_dict().items()}
    write_tensors(tmp_path / WEIGHTS, tensors, model.card())
    with pytest.raises(CheckpointError, match="does not fit its card"):
        Model.load(tmp_path)


def nested(depth: int) -> dict[str, Any]:
    card: dict[str, Any] = {}
    for _ in range(depth):
        card = {"after": card}
    return card


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("model", {"layers": 10**6}),
        ("model", {"layers": 10**6, "policy_layers": 10**6}),
        ("model", {"width": 10**6, "feedforward": 10**9}),
        ("model", {"components": 10**9}),
        ("model", {"plugin_settings": {"kernels": 10**7}}),
        ("model", {"heads": 0}),
        ("model", {"heads": -1}),
        ("model", {"layers": 1e308}),
        ("model", {"width": None}),
        ("model", {"zoom_layers": "many"}),
        ("task", {"outcome": {"kind": "real", "loc": 0.0, "scale": 1.0, "knee": -1.0}}),
        ("task", {"design": {"bounds": {}, "points": None}}),
        ("task", {"parameters": {"a": {"family": "Uniform", "low": 1.0, "high": 0.0}}}),
        ("task", {"parameters": nested(90)}),
        ("task", {"horizon": 10**9}),
        ("task", {"horizon": 0}),
        ("task", {"start": -1}),
        ("task", {"turns": [[["a"], 10**9]]}),
        ("task", {"turns": [[["a"], "x"]]}),
        ("task", {"design": {"bounds": {"x": [0.0, 1.0]}, "points": 7}}),
        ("task", {"design": {"bounds": {"x": [0.0, 1.0]}, "points": [[]]}}),
        ("task", {"design": {"bounds": {"x": [0.0, 1.0]}, "points": [[0.0, 1.0]]}}),
        ("training", nested(500)),
        ("training", nested(900)),
    ],
)
def test_an_absurd_card_is_refused_at_once_in_one_line(
    part: str, values: dict[str, Any], tmp_path: Path
) -> None:
    model = small_model()
    card = model.card()
    card[part] = {**card[part], **values}
    write_tensors(tmp_path / WEIGHTS, model.network.state_dict(), card)
    before = time.process_time()
    with pytest.raises(CheckpointError, match="restore it or train again") as refused:
        Model.load(tmp_path)
    assert time.process_time() - before < 1
    assert "\n" not in str(refused.value)


def test_a_card_nested_deeper_than_python_reads_is_damaged(tmp_path: Path) -> None:
    text = '{"format": 1, "training": ' + "[" * 100_000 + "]" * 100_000 + "}"
    save_file({}, tmp_path / WEIGHTS, {"aline": text})
    with pytest.raises(CheckpointError, match="is damaged"):
        Model.load(tmp_path)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_refused(value: float, tmp_path: Path) -> None:
    model = small_model()
    weights = {name: tensor.clone() for name, tensor in model.network.state_dict().items()}
    weights["nothing"][0] = value
    write_tensors(tmp_path / WEIGHTS, weights, model.card())
    with pytest.raises(CheckpointError, match="its weights nothing are not finite"):
        Model.load(tmp_path)


def test_tensors_of_any_kind_survive(tmp_path: Path) -> None:
    tensors = {
        "half": torch.randn(3, generator=seeded(0)).half(),
        "whole": torch.arange(4),
        "strided": torch.randn(4, 4, generator=seeded(1)).T,
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "empty": torch.zeros(0, 3),
    }
    write_tensors(tmp_path / "t", tensors, {"note": "ü"})
    again, card = read_tensors(tmp_path / "t")
    assert card["note"] == "ü"
    for name, tensor in tensors.items():
        assert again[name].dtype == tensor.dtype
        assert torch.equal(again[name], tensor)


def is_without_pickles(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether it is a call that says allow_pickle=False."""
    return isinstance(node, ast.Call) and any(
        word.arg == "allow_pickle" and ast.unparse(word.value) == "False" for word in node.keywords
    )


def test_nothing_in_aline_pickles() -> None:
    """No pickle, and none of the torch and numpy calls that use it."""
    forbidden = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}
    source = Path(aline.__file__).parent
    for path in source.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        plain = {node.func for node in ast.walk(tree) if is_without_pickles(node)}
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name.split(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module.split(".")[0]]
            assert not forbidden & set(names), f"{path} imports {names}"
            if node in plain:
                continue
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                call = f"{node.value.id}.{node.attr}"
                assert call not in {"torch.save", "torch.load", "np.load", "np.save"}, path


def test_a_loaded_model_answers_as_the_saved_one(tmp_path: Path) -> None:
    model = small_model("location", policy="box")
    again = Model.load(model.save(tmp_path))
    data = random_context(model.spec, 1, 3)
    points = torch.zeros(1, 2, 2)
    one, other = (m.network.predictive(m.network.encode(data), points) for m in (model, again))
    assert largest_difference(one.moments()[0], other.moments()[0]) == 0.0
