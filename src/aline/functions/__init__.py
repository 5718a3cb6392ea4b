"""The plug-in for unknown functions: everything that knows what a Gaussian process is."""

from aline.functions.advisor import (
    Advice,
    Advisor,
    Beyond,
    CandidateAdvice,
    CandidateTerms,
    Frame,
    PointAdvice,
)
from aline.functions.units import Units

__all__ = [
    "Advice",
    "Advisor",
    "Beyond",
    "CandidateAdvice",
    "CandidateTerms",
    "Frame",
    "PointAdvice",
    "Units",
]
