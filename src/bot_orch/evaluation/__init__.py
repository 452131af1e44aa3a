"""What logged decisions say about other policies (:func:`evaluate`); savings, spending, import and export."""

from bot_orch.evaluation.offpolicy import Estimate, Refusal
from bot_orch.evaluation.value import Evaluation, LoggedMean, evaluate, logged_means

__all__ = ["Estimate", "Evaluation", "LoggedMean", "Refusal", "evaluate", "logged_means"]
