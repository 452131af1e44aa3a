"""Distributions and the optimal-transport distances between them."""

import importlib
from typing import Any

from bot_orch.transport.bank import ProfileBank
from bot_orch.transport.barycenters import barycenter, mixture
from bot_orch.transport.drift import DriftMonitor, DriftStudy, drift_study
from bot_orch.transport.geometries.base import Geometry, distance, geometry_from_spec
from bot_orch.transport.geometries.bures import Bures, embedding_geometry
from bot_orch.transport.geometries.ground_cost import CostCloud, CostLabels
from bot_orch.transport.geometries.labels import OrderedLabels, TreeLabels, ZeroOneLabels
from bot_orch.transport.geometries.lateness import Lateness
from bot_orch.transport.geometries.scalars import Scalars
from bot_orch.transport.geometries.scores import Scores
from bot_orch.transport.geometries.sliced import Sliced
from bot_orch.transport.label_distance import label_distance, total_variation
from bot_orch.transport.measures import Cloud, Gaussian, Labels, Samples, measure_from_dict
from bot_orch.transport.memory import Memory
from bot_orch.transport.reference import Barycenter
from bot_orch.transport.uncertainty import Distances, confidence

__all__ = [
    "Barycenter",
    "Bures",
    "Cloud",
    "CostCloud",
    "CostLabels",
    "Distances",
    "DriftMonitor",
    "DriftStudy",
    "Gaussian",
    "Geometry",
    "Labels",
    "Lateness",
    "Memory",
    "OrderedLabels",
    "ProfileBank",
    "Samples",
    "Scalars",
    "Scores",
    "Sliced",
    "TreeLabels",
    "ZeroOneLabels",
    "barycenter",
    "confidence",
    "distance",
    "drift_study",
    "embedding_geometry",
    "geometry_from_spec",
    "label_distance",
    "lockin_shares",
    "measure_from_dict",
    "mixture",
    "total_variation",
]


def __getattr__(name: str) -> Any:
    """Keep ``lockin_shares`` importable from here; it moved to the experiments."""
    if name == "lockin_shares":
        return importlib.import_module("bot_orch.experiments.lockin.shares").lockin_shares
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
