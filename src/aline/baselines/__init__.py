"""What it is compared with."""

from aline.baselines.procedure import Procedure
from aline.baselines.psi_marginal import PsiMarginal
from aline.baselines.questplus import QuestPlus
from aline.baselines.uncertainty import UncertaintyPolicy

__all__ = ["Procedure", "PsiMarginal", "QuestPlus", "UncertaintyPolicy"]
