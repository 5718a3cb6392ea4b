import torch
from small import SIZES, seeded

from aline.model import Model, ModelConfig, fresh
from aline.tasks import get

SPEC = get("location").spec


def test_initial_weights_depend_only_on_the_generator() -> None:
    for policy in ("pool", "box"):
        config = ModelConfig(policy=policy, **SIZES)  # type: ignore[arg-type]
        one = fresh(SPEC, config, seeded(1)).state_dict()
        torch.rand(3)  # the global stream moves on
        two, other = (fresh(SPEC, config, seeded(seed)).state_dict() for seed in (1, 2))
        assert all(torch.equal(weight, two[name]) for name, weight in one.items())
        drawn = [name for name in one if name.endswith(("weight", "embedding", "nothing"))]
        drawn = [name for name in drawn if "norm" not in name]
        assert drawn
        assert not any(torch.equal(one[name], other[name]) for name in drawn)


def test_making_a_network_leaves_the_global_stream_alone() -> None:
    before = torch.get_rng_state()
    fresh(SPEC, ModelConfig(**SIZES), seeded(1))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_says_what_it_is_in_a_line_or_two() -> None:
    network = fresh(SPEC, ModelConfig(**SIZES), seeded(1))
    weights = sum(parameter.numel() for parameter in network.parameters())
    words = f"<Model {SPEC.in_words()}; {weights:,} weights, pool policy>"
    assert repr(Model(network)) == words
    assert len(words) < 200
