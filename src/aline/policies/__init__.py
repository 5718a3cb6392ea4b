"""From scores and proposals to the next design."""

from aline.policies.fixed import FixedPolicy
from aline.policies.learned import LearnedPolicy, Memory, nearest

__all__ = ["FixedPolicy", "LearnedPolicy", "Memory", "nearest"]
