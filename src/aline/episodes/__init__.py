"""What flows: contexts and goals, and the only loop that plays an episode."""

from aline.episodes.context import Context
from aline.episodes.goals import Goal, draw_goals, goal_of, in_turn, predictions
from aline.episodes.play import FixedPool, Offer, Offers, Policy, anywhere, offers_of, play
from aline.episodes.policies import RandomPolicy, take

__all__ = [
    "Context",
    "FixedPool",
    "Goal",
    "Offer",
    "Offers",
    "Policy",
    "RandomPolicy",
    "anywhere",
    "draw_goals",
    "goal_of",
    "in_turn",
    "offers_of",
    "play",
    "predictions",
    "take",
]
