"""The door for plug-ins: who has none hears nothing, and who asks for a stranger is told so."""

import pytest
import torch
from small import SIZES, goal_for, random_context, seeded, small_functions, small_network

from aline.episodes import goal_of
from aline.errors import InputError, InternalError
from aline.model import ModelConfig, fresh
from aline.model.advice import Advice, NoAdvisor, advisor_for
from aline.tasks import get

SPEC = get("psychometric").spec


def test_without_a_plug_in_nothing_is_said() -> None:
    advisor, context = NoAdvisor(), random_context(SPEC, 2, 5)
    points, goal = torch.zeros(2, 3, 1), goal_for(SPEC, ("slope",), 2)
    assert not list(advisor.parameters())
    whole = advisor.read(context)
    groups = whole.regrouped(torch.ones(2, 4, 5) > 0)
    for advice, shape in ((whole, (2, 1)), (groups, (2, 4))):
        assert advice.context_features().shape == (*shape, 0)
        assert advice.parameter_frame() is None
        features, frame = advice.at_points(points)
        assert features.shape == (*shape, 3, 0)
        assert frame is None
        with pytest.raises(InternalError, match="without a plug-in the network chooses"):
            advice.scores(points, goal)


def test_advice_knows_how_much_it_was_told() -> None:
    advice = NoAdvisor().read(random_context(SPEC, 2, 5))
    assert advice.length == 5
    more = advice.extend(torch.zeros(2, 1), torch.ones(2))
    assert isinstance(more, Advice)
    assert (more.length, advice.length) == (6, 5)


def test_a_network_without_a_plug_in_has_no_weights_for_one() -> None:
    names = [name for name, _ in small_network().named_parameters() if "advice" in name]
    assert names == []
    assert isinstance(advisor_for(SPEC, None, {}), NoAdvisor)


def test_an_unknown_plug_in_is_refused() -> None:
    with pytest.raises(InputError, match="plug-ins are functions, landscapes, got 'oracle'"):
        advisor_for(SPEC, "oracle", {})
    with pytest.raises(InputError, match="got 'oracle'"):
        fresh(SPEC, ModelConfig(plugin="oracle", policy="plugin", **SIZES), seeded(0))  # type: ignore[arg-type]


def test_a_plug_in_says_for_which_outcomes_it_is() -> None:
    config = ModelConfig(plugin="functions", policy="plugin", **SIZES)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="functions have real outcomes"):
        fresh(SPEC, config, seeded(0))


def test_a_plug_in_and_its_policy_go_together() -> None:
    with pytest.raises(InputError, match="policy='plugin' needs a plugin"):
        ModelConfig(policy="plugin")
    with pytest.raises(InputError, match="'functions' chooses designs itself: use policy='plugin'"):
        ModelConfig(plugin="functions", policy="pool")


def test_a_network_that_leaves_the_choice_to_its_plug_in_has_no_policy() -> None:
    network = small_functions()
    assert network.policy is None
    context, goal = random_context(network.spec, 1, 3), goal_of(network.spec, ["predictions"])
    encoded = network.encode(context)
    with pytest.raises(InternalError, match="leaves the choice of designs to its plug-in"):
        network.scores(encoded, network.summary(encoded), goal, torch.zeros(1, 2, 1))
    assert encoded.advice.scores(torch.zeros(1, 2, 1), goal).shape == (1, 1, 2)


def test_units_of_ones_own_are_refused_without_a_plug_in() -> None:
    with pytest.raises(InputError, match="standardise is for models of unknown functions"):
        NoAdvisor().in_units(None, None)
