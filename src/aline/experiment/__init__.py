"""How it is used: ask/tell, posterior object, storage."""

from aline.experiment.drawn_posterior import RefinedPosterior
from aline.experiment.experiment import Experiment
from aline.experiment.foresight import prepare
from aline.experiment.marginals import Marginal
from aline.experiment.posterior import Posterior
from aline.experiment.predictive import JointPredictive, Predictive
from aline.experiment.storage import Storage, open_storage
from aline.experiment.trial import Trial

__all__ = [
    "Experiment",
    "JointPredictive",
    "Marginal",
    "Posterior",
    "Predictive",
    "RefinedPosterior",
    "Storage",
    "Trial",
    "open_storage",
    "prepare",
]
