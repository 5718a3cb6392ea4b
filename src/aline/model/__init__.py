"""What learns: embedder, attention, heads, assembly, checkpoint."""

from aline.model.model import Model, fresh, initial_weights
from aline.model.network import ModelConfig, Network, Proposal, View
from aline.model.policy import LearnedPolicy
from aline.model.standardised import StandardisedView, Units, read_standardised
from aline.spaces.outcomes import Belief, Bernoulli, Censored, Mixture

__all__ = [
    "Belief",
    "Bernoulli",
    "Censored",
    "LearnedPolicy",
    "Mixture",
    "Model",
    "ModelConfig",
    "Network",
    "Proposal",
    "StandardisedView",
    "Units",
    "View",
    "fresh",
    "initial_weights",
    "read_standardised",
]
