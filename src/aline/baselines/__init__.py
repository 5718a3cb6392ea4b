"""What it is compared with."""

from aline.baselines.ace import AcePolicy, train_ace
from aline.baselines.gp import GPPolicy
from aline.baselines.procedure import Procedure
from aline.baselines.psi_marginal import PsiMarginal
from aline.baselines.questplus import QuestPlus
from aline.baselines.uncertainty import UncertaintyPolicy

__all__ = [
    "AcePolicy",
    "GPPolicy",
    "Procedure",
    "PsiMarginal",
    "QuestPlus",
    "UncertaintyPolicy",
    "train_ace",
]
