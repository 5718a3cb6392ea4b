"""From scores and proposals to the next design."""

from aline.policies.learned import LearnedPolicy, Memory, nearest

__all__ = ["LearnedPolicy", "Memory", "nearest"]
