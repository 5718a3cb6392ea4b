import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small import seeded
from torch import distributions as td

from aline.errors import InputError
from aline.spaces import Categorical, Only, Parameters

MIXED = {
    "rate": td.Uniform(0.1, 2.0),
    "share": td.Dirichlet(torch.tensor([1.0, 2.0, 0.7])),
    "gain": td.Independent(td.Normal(torch.zeros(2), torch.tensor([1.0, 3.0])), 1),
}

PARAMETERS = Parameters(MIXED)


def test_names_and_labels() -> None:
    parameters = PARAMETERS
    assert parameters.names == ("rate", "share_1", "share_2", "gain_1", "gain_2")
    assert parameters.labels == ("rate", "share_1", "share_2", "share_3", "gain_1", "gain_2")
    assert parameters.index("share") == [1, 2]
    assert parameters.mask(["rate", "gain_2"]).tolist() == [True, False, False, False, True]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), batch=st.lists(st.integers(1, 3), max_size=2))
def test_round_trip(seed: int, batch: list[int]) -> None:
    parameters = PARAMETERS
    z = torch.randn(*batch, 5, generator=seeded(seed), dtype=torch.float64).clamp(-3, 3)
    theta = parameters.to_user(z)
    assert theta["share"].shape == (*batch, 3)
    assert torch.allclose(theta["share"].sum(-1), torch.ones(batch, dtype=torch.float64))
    assert torch.allclose(parameters.to_network(theta, torch.float64), z, atol=1e-5)


def test_labels_are_the_declared_values_one_by_one() -> None:
    parameters = PARAMETERS
    z = torch.randn(4, 5, generator=seeded(1))
    theta, flat = parameters.to_user(z), parameters.to_labels(z)
    assert tuple(flat) == parameters.labels
    assert torch.equal(flat["share_3"], theta["share"][:, 2])
    assert torch.equal(flat["gain_1"], theta["gain"][:, 0])
    assert torch.equal(flat["rate"], theta["rate"])


@settings(max_examples=8, deadline=None)
@given(
    weights=st.lists(st.floats(0.3, 5.0), min_size=2, max_size=4),
    seed=st.integers(0, 10_000),
)
def test_sticks_carry_the_density_of_the_simplex(weights: list[float], seed: int) -> None:
    """The coordinates' prior densities multiply to the Dirichlet's over its free coordinates."""
    prior = td.Dirichlet(torch.tensor(weights, dtype=torch.float64))
    parameters = Parameters({"share": prior})
    z = torch.randn(6, len(weights) - 1, generator=seeded(seed), dtype=torch.float64).clamp(-3, 3)
    joint = parameters.log_prior(z).sum(-1)
    assert torch.allclose(joint, prior.log_prob(parameters.to_user(z)["share"]), atol=2e-4)


def test_volume_of_a_simplex_is_its_jacobian() -> None:
    parameters = Parameters({"share": td.Dirichlet(torch.tensor([1.0, 2.0, 0.7]))})
    z = torch.tensor([0.3, -0.8], dtype=torch.float64)
    step = 0.02
    columns = []
    for i in range(2):
        shift = step * torch.eye(2, dtype=torch.float64)[i]
        up, down = (parameters.to_user(z + sign * shift)["share"][:2] for sign in (1, -1))
        columns.append((up - down) / (2 * step))
    jacobian = torch.stack(columns, 1)
    volume = parameters.log_volume(z).sum()
    assert volume.item() == pytest.approx(jacobian.det().abs().log().item(), abs=1e-3)


def test_only_monotone_maps_of_one_coordinate_are_direct() -> None:
    parameters = PARAMETERS
    assert [label for label in parameters.labels if not parameters.is_direct(label)] == [
        "share_2",
        "share_3",
    ]


def test_json_round_trip() -> None:
    parameters = PARAMETERS
    again = Parameters.from_json(json.loads(json.dumps(parameters.to_json())))
    z = torch.randn(7, 5, generator=seeded(2))
    assert again.names == parameters.names
    for name, value in parameters.to_user(z).items():
        assert torch.equal(again.to_user(z)[name], value)


def test_values_of_different_shapes_broadcast() -> None:
    parameters = Parameters({"a": td.Normal(0.0, 1.0), "b": td.Normal(0.0, 1.0)})
    assert parameters.to_network({"a": [1.0, 2.0, 3.0], "b": 0.5}).shape == (3, 2)


def test_no_parameters_at_all() -> None:
    parameters = Parameters({})
    assert len(parameters) == 0
    assert parameters.to_network({}).shape == (0,)
    assert parameters.log_volume(torch.zeros(3, 0)).shape == (3, 0)


GOOD = {"rate": 1.0, "share": [0.2, 0.3, 0.5], "gain": [0.0, 1.0]}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rate": 3.0}, r"rate must lie in \[0.1, 2\], got 3"),
        ({"rate": math.nan}, r"rate must lie in \[0.1, 2\], got nan"),
        ({"gain": [0.0, math.inf]}, "gain_2 must lie in .*, got inf"),
        ({"share": [0.5, 0.5, 0.5]}, "share must sum to 1, got 1.5"),
        ({"share": [0.5, 0.5]}, r"share must have 3 numbers in its last axis, got shape \(2,\)"),
        ({"share": [-0.5, 1.0, 0.5]}, r"share_1 must lie in \[0, 1\], got -0.5"),
        ({"gain": 1.0}, r"gain must have 2 numbers in its last axis, got shape \(\)"),
        ({"rate": "fast"}, "rate must be a number or an array of them, got 'fast'"),
        ({"rate": [1.0, 1.0], "gain": [[0.0, 1.0]] * 3}, "parameter values must fit one shape"),
        ({"speed": 1.0}, r"must name exactly rate, share, gain; missing none, unknown \['speed'\]"),
    ],
)
def test_bad_values(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PARAMETERS.to_network(GOOD | values)


def test_missing_value() -> None:
    with pytest.raises(InputError, match=r"missing \['share', 'gain'\]"):
        PARAMETERS.to_network({"rate": 1.0})


def test_bounds_themselves_are_allowed_in_any_precision() -> None:
    parameters = Parameters({"rate": td.Uniform(0.1, 2.0)})
    for dtype in (torch.float32, torch.float64):
        for bound in (0.1, 2.0):
            assert parameters.to_network({"rate": bound}, dtype).isfinite().all()


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"parameters are rate, share_1.*got 'speed'"):
        PARAMETERS.mask(["speed"])


def test_priors_must_be_named() -> None:
    with pytest.raises(InputError, match="parameters must map names to priors, got list"):
        Parameters([td.Uniform(0.0, 1.0)])  # type: ignore[arg-type]


def test_a_discrete_parameter_is_the_place_of_its_value() -> None:
    parameters = Parameters({"model": Categorical(("power", "exponential"), [0.25, 0.75])})
    z = parameters.to_network({"model": "exponential"})
    assert parameters.to_user(z)["model"].item() == 1
    assert not parameters.to_user(z)["model"].is_floating_point()
    places = torch.tensor([0, 1, 1])
    assert torch.equal(
        parameters.to_user(parameters.to_network({"model": places}))["model"], places
    )
    drawn = parameters.to_user(parameters.sample(20_000, torch.Generator()))["model"]
    assert float(drawn.float().mean()) == pytest.approx(0.75, abs=0.01)
    log_prior = parameters.log_prior(parameters.to_network({"model": places}))
    torch.testing.assert_close(log_prior[:, 0].exp(), torch.tensor([0.25, 0.75, 0.75]))


def test_parameters_that_exist_under_a_value_survive_a_card() -> None:
    declared = {
        "model": Categorical(("power", "exponential")),
        "b": Only(td.Uniform(0.0, 1.0), model="power"),
    }
    parameters = Parameters.from_json(json.loads(json.dumps(Parameters(declared).to_json())))
    assert parameters.values_of("model") == ("power", "exponential")
    assert parameters.priors["b"].given == {"model": "power"}
    z = parameters.to_network({"model": torch.tensor([0, 1]), "b": 0.5})
    assert parameters.exists("b", z).tolist() == [True, False]
    assert parameters.exists("model", z) is None


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"m": td.Categorical(torch.ones(2))}, "need labels"),
        ({"b": Only(td.Uniform(0.0, 1.0), m="x")}, "discrete parameter"),
        (
            {"m": Categorical(("x", "y")), "b": Only(td.Uniform(0.0, 1.0), m="z")},
            "discrete parameter",
        ),
    ],
)
def test_mistakes_with_discrete_parameters_are_explained(declared, message) -> None:
    with pytest.raises(InputError, match=message):
        Parameters(declared)


@pytest.mark.parametrize("value", ["powr", 2, 0.5, -1])
def test_values_that_there_are_not_are_refused(value) -> None:
    with pytest.raises(InputError):
        Parameters({"model": Categorical(("power", "exponential"))}).to_network({"model": value})


@pytest.mark.parametrize("probs", [[0.5], [0.5, 0.6], [1.0, 0.0]])
def test_probabilities_are_positive_and_sum_to_one(probs) -> None:
    with pytest.raises(InputError, match="probability for each"):
        Categorical(("power", "exponential"), probs)


def test_only_takes_one_value() -> None:
    with pytest.raises(InputError, match="one value"):
        Only(td.Uniform(0.0, 1.0))
