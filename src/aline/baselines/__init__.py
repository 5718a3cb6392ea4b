"""What it is compared with."""

from aline.baselines.uncertainty import UncertaintyPolicy

__all__ = ["UncertaintyPolicy"]
