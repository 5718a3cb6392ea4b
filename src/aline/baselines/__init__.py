"""What it is compared with."""

from aline.baselines.ace import AcePolicy, train_ace
from aline.baselines.dad import Dad, DadConfig
from aline.baselines.gp import GPPolicy
from aline.baselines.history import HistoryPolicy, learn
from aline.baselines.procedure import Procedure
from aline.baselines.psi_marginal import PsiMarginal
from aline.baselines.questplus import QuestPlus
from aline.baselines.rl_boed import RlBoed, RlBoedConfig
from aline.baselines.uncertainty import UncertaintyPolicy
from aline.baselines.vpce import VpceConfig, VpcePolicy
from aline.baselines.vsoed import Vsoed, VsoedConfig

__all__ = [
    "AcePolicy",
    "Dad",
    "DadConfig",
    "GPPolicy",
    "HistoryPolicy",
    "Procedure",
    "PsiMarginal",
    "QuestPlus",
    "RlBoed",
    "RlBoedConfig",
    "UncertaintyPolicy",
    "VpceConfig",
    "VpcePolicy",
    "Vsoed",
    "VsoedConfig",
    "learn",
    "train_ace",
]
