"""Distributions and the optimal-transport distances between them."""

from bot_orch.transport.bank import ProfileBank
from bot_orch.transport.barycenters import barycenter, mixture
from bot_orch.transport.drift import DriftMonitor
from bot_orch.transport.geometries.base import Geometry, distance, geometry_from_spec
from bot_orch.transport.geometries.bures import Bures
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
    "geometry_from_spec",
    "label_distance",
    "measure_from_dict",
    "mixture",
    "total_variation",
]
