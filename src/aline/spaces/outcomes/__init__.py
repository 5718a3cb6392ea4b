"""What a measurement returns: one kind a file, with all that is particular to it.

Importing a kind here is what registers it.
"""

from aline.spaces.outcomes.base import Belief, Outcome, outcome_from_json
from aline.spaces.outcomes.binary import Bernoulli, Binary
from aline.spaces.outcomes.categorical import Categorical
from aline.spaces.outcomes.count import Count
from aline.spaces.outcomes.mixture import Censored, Mixture
from aline.spaces.outcomes.ordinal import Ordinal
from aline.spaces.outcomes.real import Real
from aline.spaces.outcomes.several import Outcomes

__all__ = [
    "Belief",
    "Bernoulli",
    "Binary",
    "Categorical",
    "Censored",
    "Count",
    "Mixture",
    "Ordinal",
    "Outcome",
    "Outcomes",
    "Real",
    "outcome_from_json",
]
