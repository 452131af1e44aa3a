"""Distributions and the optimal-transport distances between them."""

from bot_orch.transport.labels import label_distance, total_variation
from bot_orch.transport.measures import Labels

__all__ = ["Labels", "label_distance", "total_variation"]
