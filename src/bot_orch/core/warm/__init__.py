"""Warm start: teaching evaluations to a policy before traffic, and testing whether they hold in traffic."""

from bot_orch.core.warm.evaluations import Evaluations, as_evaluations, label_number, with_answers
from bot_orch.core.warm.teaching import WarmPolicy, encoded_tasks, fit_features, most_lessons, row_lessons, teach
from bot_orch.core.warm.trial import WarmStart

__all__ = [
    "Evaluations",
    "WarmPolicy",
    "WarmStart",
    "as_evaluations",
    "encoded_tasks",
    "fit_features",
    "label_number",
    "most_lessons",
    "row_lessons",
    "teach",
    "with_answers",
]
