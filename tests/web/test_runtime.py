"""The runtime in JavaScript gives what ONNX Runtime gives, for every shipped model."""

import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from web import node

from aline import zoo

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from aline.engine.runners import GRAPH, OnnxRunner

SIZES = {"batch": 1, "context": 6, "point": 3, "candidate": 20}
NAMES = sorted(path.parent.name for path in Path(zoo.__file__).parent.glob(f"*/{GRAPH}"))


def folder_of(name: str) -> Path:
    return Path(zoo.__file__).parent / name


def inputs_of(
    runner: OnnxRunner, seed: int, sizes: dict[str, int] = SIZES
) -> dict[str, np.ndarray[Any, Any]]:
    """Random numbers where the graph takes numbers; masks that hide something."""
    random = np.random.default_rng(seed)
    given = {}
    for one in runner.session.get_inputs():
        shape = [sizes[axis] if isinstance(axis, str) else axis for axis in one.shape]
        values = random.uniform(-1, 1, shape).astype(np.float32)
        if one.type == "tensor(bool)":
            given[one.name] = values > -0.3
        else:
            given[one.name] = np.abs(values) + 0.3 if one.name.endswith("frame") else values
    if "prior" in given:  # means, and standard deviations
        given["prior"][..., 1] = np.abs(given["prior"][..., 1]) + 0.01
    given["outcomes"] = np.where(given["outcomes"] > 0, 1, -1).astype(np.float32)
    return given


def asked_of(name: str, given: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    """A run in JavaScript, as plain data."""
    plain = {
        key: {"shape": list(value.shape), "data": value.astype(float).ravel().tolist()}
        for key, value in given.items()
    }
    return {"graph": str(folder_of(name) / GRAPH), "given": plain}


def test_outputs_are_those_of_onnx_runtime(tmp_path: Path) -> None:
    runners = {name: OnnxRunner(folder_of(name) / GRAPH) for name in NAMES}
    given = {name: inputs_of(runner, 7) for name, runner in runners.items()}
    asked = [asked_of(name, given[name]) for name in NAMES]
    found = node.run("run.mjs", asked, tmp_path)
    for name, outputs in zip(NAMES, found, strict=True):
        expected = runners[name].run(given[name])
        assert set(outputs) == set(expected)
        for key, tensor in outputs.items():
            values = np.array(tensor["data"]).reshape(tensor["shape"])
            np.testing.assert_allclose(values, expected[key], 1e-4, 1e-4, err_msg=f"{name} {key}")


def operator_cases() -> dict[str, tuple[dict[str, Any], list[tuple[int, ...]], list[Any]]]:
    """By name: attributes, the shapes of random inputs, and whole numbers that are inputs too."""
    places = [[[0, 1], [2, 0]], [[1, 1], [-1, 0]]]
    return {
        "ReduceLogSumExp": ({"keepdims": 0}, [(2, 3, 4)], [[1]]),
        "ReduceLogSumExp of two": ({}, [(2, 3, 4)], [[0, -1]]),
        "ReduceMax": ({"keepdims": 1}, [(2, 3, 4)], [[1]]),
        "ReduceSum": ({"keepdims": 0}, [(2, 3, 4)], [[0, 2]]),
        "ArgMin": ({"axis": 1, "keepdims": 0}, [(2, 3, 4)], []),
        "ArgMax": ({"axis": -1}, [(2, 3, 4)], []),
        "GatherElements": ({"axis": 1}, [(2, 3, 2)], [places]),
        "GatherND": ({}, [(3, 2, 5)], [places]),
        "GatherND of batches": ({"batch_dims": 1}, [(2, 3, 2, 5)], [places]),
    }


def one_operator(name: str, file: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Write a graph of one node; random numbers for its inputs."""
    onnx, random = import_module("onnx"), np.random.default_rng(5)
    make, (attributes, shapes, wholes) = onnx.helper, operator_cases()[name]
    given = {f"x{i}": random.normal(size=s).astype(np.float32) for i, s in enumerate(shapes)}
    constants = [
        onnx.numpy_helper.from_array(np.array(one, np.int64), f"n{i}")
        for i, one in enumerate(wholes)
    ]
    names = [*given, *(one.name for one in constants)]
    operator = make.make_node(name.split()[0], names, ["y"], **attributes)
    inputs = [make.make_tensor_value_info(key, 1, x.shape) for key, x in given.items()]
    output = make.make_tensor_value_info("y", 7 if name.startswith("Arg") else 1, None)
    graph = make.make_graph([operator], "one", inputs, [output], constants)
    opsets = [make.make_opsetid("", 18)]
    onnx.save(make.make_model(graph, opset_imports=opsets, ir_version=10), file)
    return given


def test_operators_that_no_shipped_model_has(tmp_path: Path) -> None:
    """Models that `aline train` makes of your own tasks have them."""
    pytest.importorskip("onnx", reason="onnx is not installed")
    asked, expected = [], []
    for name in operator_cases():
        file = tmp_path / f"{name}.onnx"
        given = one_operator(name, file)
        session = import_module("onnxruntime").InferenceSession(str(file))
        expected.append(session.run(None, given)[0])
        plain = {n: {"shape": list(x.shape), "data": x.ravel().tolist()} for n, x in given.items()}
        asked.append({"graph": str(file), "given": plain})
    found = node.run("run.mjs", asked, tmp_path)
    for name, heard, wanted in zip(operator_cases(), found, expected, strict=True):
        assert heard["y"]["shape"] == list(wanted.shape), name
        assert heard["y"]["data"] == pytest.approx(wanted.ravel().tolist(), abs=1e-5), name


def test_numbers_are_drawn_as_torch_draws_them(tmp_path: Path) -> None:
    """The same seed gives the same candidates in both languages."""
    seeds = [0, 1, zlib.crc32(b"3:17"), 2**32 - 1]
    asked = [{"text": f"{seed}:1", "seed": seed} for seed in seeds]
    for seed, drawn in zip(seeds, node.run("draw.mjs", asked, tmp_path), strict=True):
        generator = torch.Generator().manual_seed(seed)
        assert drawn["crc32"] == zlib.crc32(f"{seed}:1".encode())
        assert drawn["uniform"] == torch.rand(700, generator=generator).tolist()
        for count in (2, 3, 40):
            expected = torch.randn(count, generator=generator).tolist()
            assert drawn[f"normal{count}"] == pytest.approx(expected, abs=1e-5)


def test_loops_in_webassembly_are_those_in_javascript(tmp_path: Path) -> None:
    """Of sizes around the blocks that they compute at a time."""
    products = [[r, k, c] for r in (1, 3, 4, 9) for k in (1, 2, 31) for c in (1, 7, 8, 12, 33)]
    rows = [[count, length] for count in (1, 3) for length in (1, 3, 4, 17)]
    found = node.run("loops.mjs", {"products": products, "rows": rows}, tmp_path)
    assert found.pop("hasWebAssembly")
    exponentials = found.pop("exp")
    assert max(exponentials) < 3e-7
    assert {name: max(differences) for name, differences in found.items()} == {
        "product": 0.0, "combine": 0.0, "relu": 0.0, "hardSwish": 0.0
    }  # fmt: skip


def test_a_run_that_needs_more_memory_gets_it(tmp_path: Path) -> None:
    """And constants are where they were. Without WebAssembly the numbers are the same."""
    runner = OnnxRunner(folder_of("location") / GRAPH)
    large = inputs_of(runner, 3, SIZES | {"context": 150, "point": 2000})
    asked = [asked_of("location", one) for one in (inputs_of(runner, 3), large)] * 2
    found = node.run("run.mjs", asked, tmp_path)
    for one, other in zip(found, node.run("run.mjs", asked, tmp_path, "plain"), strict=True):
        for name, tensor in one.items():
            assert tensor["data"] == pytest.approx(other[name]["data"], abs=1e-4), name
    assert found[0] == found[2]
    expected = runner.run(large)["prediction_mean"].ravel()
    assert found[1]["prediction_mean"]["data"] == pytest.approx(expected, abs=1e-4)
