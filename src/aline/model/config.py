"""The sizes of a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from aline.errors import InputError


@dataclass(frozen=True)
class ModelConfig:
    """Sizes; the defaults are the paper's (appendix B.2).

    >>> import aline
    >>> from aline.tasks import get
    >>> task = get("linear", horizon=2)
    >>> small = aline.train(task, rounds=1, progress=False, model={"width": 16, "layers": 2})
    >>> small.network.config.width
    16
    >>> ModelConfig.from_json(ModelConfig(width=16).to_json()).width
    16
    """

    width: int = 32
    heads: int = 4
    layers: int = 3
    feedforward: int = 128
    components: int = 10
    octaves: int = 4
    policy_layers: int = 2
    # "independent": context tokens do not attend to each other, decoders attend to them; every
    # prefix trains in one pass and an observation is added in constant work. "full": the paper's.
    context: Literal["independent", "full"] = "independent"
    # "pool" scores candidates; "box" proposes a point; "informed" chooses by the task's likelihood
    # where it is at hand, and else scores candidates (policies/informed.py); "plugin" leaves the
    # choice to the plug-in, and nothing is learned for it.
    policy: Literal["pool", "box", "informed", "plugin"] = "pool"
    # Give the heads, beside a token, averages of the raw observations, and give the policy the
    # means and spreads of q: fine scales pass both without being relearned.
    shortcuts: bool = True
    # How often the parameters' tokens read the observations again, each time relative to a better
    # guess of where they lie (model/zoom.py); needs the shortcuts.
    zoom_layers: int = 0
    # Average also what an observation by itself says about each parameter, which is learned: where
    # parameters do not lie in the design space, raw designs alone centre no posterior.
    implied: bool = True
    # How often a guess of the posterior is made better by what a learned likelihood says near it
    # (model/newton.py).
    newton_steps: int = 0
    # How many further layers the learned likelihood has, each added to the one before.
    emulator_layers: int = 1
    # Whether it also sees logarithms of what designs and parameters make together: of distances,
    # say, which matter most where they are small.
    emulator_logs: bool = True
    # How many stages a search for the posterior takes with the learned likelihood, before the step
    # (model/search.py).
    search_stages: int = 0
    # How many places it looks at: a posterior may have several modes (model/guesses.py). Two or
    # four, or one for each value of a discrete parameter.
    guesses: int = 1
    # Whether q also knows every parameter given others (model/joint.py).
    joint: bool = True
    # Whether priors may be chosen, and values known, at run time (model/prior.py).
    priors: bool = False
    # What knows more of the task than a network learns (model/advice.py), and its settings.
    plugin: str | None = None
    plugin_settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.plugin is None and self.policy == "plugin":
            raise InputError("policy='plugin' needs a plugin, such as 'functions'")
        if self.plugin is not None and self.policy != "plugin":
            raise InputError(
                f"the plugin {self.plugin!r} chooses designs itself: use policy='plugin', got "
                f"policy={self.policy!r}"
            )
        if self.priors and self.plugin is not None:
            raise InputError(f"priors=True is not for models with the plugin {self.plugin!r}")
        if self.width % self.heads:
            raise InputError(
                f"width must be a multiple of heads, got width {self.width} and {self.heads} heads"
            )
        if self.zoom_layers and (not self.shortcuts or self.width % (2 * self.heads)):
            raise InputError(
                "zoom_layers need shortcuts and a width that is a multiple of twice the heads, got "
                f"width {self.width} and {self.heads} heads: change these, or use zoom_layers=0"
            )
        if self.guesses > 1 and not (self.search_stages and self.newton_steps == 1):
            raise InputError(
                "several guesses are where a search ends, and one step follows from each: use "
                f"search_stages and newton_steps=1, got {self.search_stages} and "
                f"{self.newton_steps}"
            )
        if not 1 <= self.policy_layers <= self.layers:
            raise InputError(
                f"policy_layers must lie in [1, layers = {self.layers}], got {self.policy_layers}"
            )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ModelConfig:
        """Read a card; the first ones do not mention what later networks have."""
        none = {"newton_steps": 0, "emulator_layers": 0, "search_stages": 0}
        lacking = dict.fromkeys(("joint", "implied", "emulator_logs"), False)
        return cls(**{**none, **lacking, **data})

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card; without a plug-in it is not mentioned."""
        plain = asdict(self)
        if self.plugin is None:
            del plain["plugin"], plain["plugin_settings"]
        return plain
