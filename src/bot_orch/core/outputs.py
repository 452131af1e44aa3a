"""What the outputs of a round's answers imply: distances between them and to the task's reference.

Only these numbers are kept with a decision; a recorded answer, which has no output, keeps its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bot_orch.arrays import Floats, finite_rows
from bot_orch.core.alignment.model import Alignment
from bot_orch.errors import InvalidInputError
from bot_orch.transport.geometries.base import Geometry
from bot_orch.transport.measures import Labels
from bot_orch.types import Answer, Measure

#: Of an answer: ``distance`` and ``apart``.
Implied = tuple[float | None, tuple[float, ...]]


def implied(answers: Sequence[Answer], alignment: Alignment | None, reference: Floats | None) -> list[Implied]:
    """Per answer, the distance to the task's reference and the distances to earlier answers.

    The geometry is the router's, or the default for the type of the outputs.
    """
    if all(each.output is None for each in answers):
        return [(each.distance, each.apart) for each in answers]
    measures = _measures(answers)
    known = [each for each in measures if each is not None]
    if alignment is None or (isinstance(known[0], Labels) and not hasattr(alignment.geometry, "n_labels")):
        alignment, reference = Alignment.for_measure(known[0]), None
    geometry = alignment.geometry
    points = [None if each is None else alignment.embed("answer.output", each) for each in measures]
    aim = None if reference is None or not finite_rows(reference) else reference
    unit = float(getattr(geometry, "diameter", 0.0)) or 1.0 if isinstance(known[0], Labels) else 1.0
    return [
        (
            None if aim is None or points[place] is None else _w(geometry, points[place], aim),
            tuple(_w(geometry, points[place], points[k]) / unit for k in range(place)),
        )
        for place in range(len(answers))
    ]


def _measures(answers: Sequence[Answer]) -> list[Measure | None]:
    """Outputs; beside label distributions, an answer with the number of a label alone is all mass on it."""
    sizes = {len(each.output.probabilities) for each in answers if isinstance(each.output, Labels)}
    if len(sizes) > 1:
        raise InvalidInputError("answer.output", f"has {sorted(sizes)} labels", "give all outputs the same labels")
    size = max(sizes, default=0)
    return [
        Labels.one_hot(each.label, size)
        if each.output is None and isinstance(each.label, int) and 0 <= each.label < size
        else each.output
        for each in answers
    ]


def _w(geometry: Geometry, a: Floats | None, b: Floats | None) -> float:
    return math.nan if a is None or b is None else float(geometry.distances(a[None], b)[0])
