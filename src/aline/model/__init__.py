"""What learns: tokens, attention, heads, network, checkpoint."""

from aline.model.config import ModelConfig
from aline.model.encoder import Encoded
from aline.model.joint import Joint
from aline.model.model import Model, fresh, initial_weights
from aline.model.network import Network, Summary
from aline.model.policy import Proposal
from aline.spaces.outcomes import Belief, Bernoulli, Censored, Mixture

__all__ = [
    "Belief",
    "Bernoulli",
    "Censored",
    "Encoded",
    "Joint",
    "Mixture",
    "Model",
    "ModelConfig",
    "Network",
    "Proposal",
    "Summary",
    "fresh",
    "initial_weights",
]
