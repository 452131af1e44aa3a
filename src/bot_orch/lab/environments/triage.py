"""Human-AI triage under deployment shift (the paper's semi-synthetic experiment).

A classifier and a simulated clinician share 114 patients; half of them come from a shifted population. Everything is
made at run time from scikit-learn's breast cancer data.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from bot_orch.arrays import Bools, Floats, Ints
from bot_orch.errors import MissingExtraError
from bot_orch.lab.environments.stream import AlignmentSource, GivenAlignment, Stream
from bot_orch.rng import generator
from bot_orch.transport.geometries.labels import ZeroOneLabels

AI, HUMAN = 0, 1
TriageCondition = Literal["iid", "noniid"]

#: The first split whose classifier is right on 56 of 57 and 46 of 57 patients, the paper's 98.2 % and 80.7 %.
PAPER_SPLIT = 24
_HUMAN_ACCURACY = {"in distribution": 0.88, "shifted": 0.947}
_SHIFTED_FEATURES, _SHIFT_SD, _SHIFT_BIAS = 20, 0.8, 0.5
_N_TEST = 57
_LABELS = ZeroOneLabels(2)


@dataclass(frozen=True, slots=True, eq=False)
class TriageData:
    """The 114 patients in the order of arrival: 57 in distribution, then 57 shifted."""

    label: Ints
    shifted: Bools
    ai_label: Ints
    _: KW_ONLY
    ai_probability: Floats  # (114, 2), Platt-calibrated, as the classifier reports it
    moderated: Floats  # (114, 2), the same after accounting for input drift
    drift: Floats  # estimated variance of the noise on each patient's features
    human_accuracy: Floats

    @property
    def ai_correct(self) -> Bools:
        """Mask of patients on which the classifier is right."""
        return np.equal(self.ai_label, self.label)


@dataclass(frozen=True, slots=True, eq=False)
class TriageEpisodes:
    """One order of patients and one sample of the clinician's answers per seed."""

    patient: Ints  # (T, seeds)
    stream: Stream  # rewards and the alignment that results are scored with
    shifted: Bools  # (T, seeds)


@lru_cache(maxsize=64)
def load_triage(split_seed: int = PAPER_SPLIT) -> TriageData:
    """Train and calibrate the classifier on one split, and shift the last tenth of the data."""
    x, y = _breast_cancer()
    train, calibrate, test, shift = _split(y, split_seed)
    mean, scale = x[train].mean(axis=0), x[train].std(axis=0)
    z = (x - mean) / scale
    rng = generator("triage-shift", split_seed)
    columns = rng.permutation(z.shape[1])[:_SHIFTED_FEATURES]
    moved = z[shift].copy()
    moved[:, columns] += _SHIFT_BIAS + rng.normal(0.0, _SHIFT_SD, (len(shift), _SHIFTED_FEATURES))
    cases, label = np.vstack([z[test], moved]), np.concatenate([y[test], y[shift]])
    isotonic, logit, weights = _classifier(z[train], y[train], z[calibrate], y_cal=y[calibrate])
    drift = _noise_variance(z[train], cases)
    raw = logit(cases)
    shifted = np.arange(2 * _N_TEST) >= _N_TEST
    return TriageData(
        label,
        shifted,
        isotonic.predict(cases),
        ai_probability=_two_columns(raw),
        moderated=_two_columns(raw / np.sqrt(1.0 + np.pi / 8.0 * drift * (weights @ weights))),
        drift=drift,
        human_accuracy=np.where(shifted, _HUMAN_ACCURACY["shifted"], _HUMAN_ACCURACY["in distribution"]),
    )


def episodes(data: TriageData, condition: TriageCondition, seeds: Ints, *, label: Ints | None = None) -> TriageEpisodes:
    """Patient orders and clinician's answers for every seed.

    ``iid`` shuffles all patients together; ``noniid`` puts the shifted ones after round 57. ``label`` (T, seeds)
    replaces the true labels, for tests that ask whether a choice depends on them.
    """
    n = 2 * _N_TEST
    patient, answer = np.empty((n, len(seeds)), dtype=np.int64), np.empty((n, len(seeds)))
    for column, seed in enumerate(seeds):
        rng = generator("triage-episode", condition, int(seed))
        if condition == "iid":
            patient[:, column] = rng.permutation(n)
        else:
            patient[:, column] = np.concatenate([rng.permutation(_N_TEST), _N_TEST + rng.permutation(_N_TEST)])
        answer[:, column] = rng.random(n)
    truth = data.label[patient] if label is None else label
    human_right = answer < data.human_accuracy[patient]
    reward = np.stack([data.ai_label[patient] == truth, human_right], axis=-1).astype(float)
    stream = Stream(reward, _revealed(data, patient, truth))
    return TriageEpisodes(patient, stream, data.shifted[patient])


def paper_alignment(cases: TriageEpisodes) -> AlignmentSource:
    """The paper's protocol: the reference is the true label, so the router knows whether the AI is right."""
    return GivenAlignment(cases.stream.alignment)


def stated_claims(data: TriageData, cases: TriageEpisodes) -> Floats:
    """Claims ``(T, seeds, 2)``: the classifier's probability of its own label; the clinician makes none.

    The probability is calibrated on held-out patients in distribution, and it is what the classifier reports for every
    patient before anybody is asked.
    """
    own = np.take_along_axis(data.ai_probability, data.ai_label[:, None], axis=1)[:, 0]
    ai: Floats = own[cases.patient]
    return np.stack([ai, np.full_like(ai, np.nan)], axis=-1)


class DeployableAlignment(AlignmentSource):
    """Alignment from information available before the choice; the current patient's label is not used.

    The reference nu_t is the classifier's predictive distribution, moderated by input drift: noise of variance s^2
    on the features adds s^2 |w|^2 to the variance of the logit, and MacKay's approximation turns that into a flatter
    probability [1]_. W(AI) is its distance to the label the AI would give. W(human) is the clinician's error rate in
    the answers seen so far, with a prior worth ``prior_n`` answers of which one in ten is wrong.

    References
    ----------
    .. [1] MacKay. The evidence framework applied to classification networks. Neural Computation 1992.
    """

    def __init__(
        self, data: TriageData, cases: TriageEpisodes, *, moderate: bool = True, prior_n: float = 10.0
    ) -> None:
        reference = data.moderated if moderate else data.ai_probability
        self._ai = _distance(reference, np.eye(2)[data.ai_label])
        self._patient = cases.patient
        self._wrong = np.full(cases.patient.shape[1], 0.1 * prior_n)
        self._seen = np.full(cases.patient.shape[1], prior_n)

    def at(self, t: int) -> Floats:
        """Estimated distances of round ``t``."""
        return np.stack([self._ai[self._patient[t]], self._wrong / self._seen], axis=-1)

    def learn(self, t: int, agent: Ints, reward: Floats) -> None:
        """Count the clinician's answers."""
        human = agent == HUMAN
        self._seen += human
        self._wrong += np.where(human, 1.0 - reward, 0.0)


def qualifies(split_seed: int) -> bool:
    """Whether the classifier is right on 56 of 57 and 46 of 57 patients of a split, as in the paper."""
    correct = load_triage(split_seed).ai_correct
    return bool(correct[:_N_TEST].sum() == 56 and correct[_N_TEST:].sum() == 46)


def _revealed(data: TriageData, patient: Ints, truth: Ints) -> Floats:
    """W to the one-hot true label under 0-1 cost, for the AI's label and for the clinician's distribution."""
    nu = np.eye(2)[truth]
    p = data.human_accuracy[patient][..., None]
    human = p * nu + (1.0 - p) * (1.0 - nu)
    return np.stack([_distance(nu, np.eye(2)[data.ai_label[patient]]), _distance(nu, human)], axis=-1)


def _distance(nu: Floats, mu: Floats) -> Floats:
    """W under 0-1 cost between distributions over the two labels, ``(..., 2)`` each."""
    embed = _LABELS.features
    w: Floats = _LABELS.distances(embed(mu)[..., None, :], embed(nu))[..., 0]
    return w


def _noise_variance(train: Floats, cases: Floats) -> Floats:
    """Energy in excess of the training data along its quietest half of principal axes, per patient and axis."""
    values, vectors = np.linalg.eigh(np.cov(train.T))
    half = len(values) // 2
    projected = (cases - train.mean(axis=0)) @ vectors[:, :half]
    excess: Floats = (projected**2 - values[:half]).mean(axis=1)
    return np.maximum(0.0, excess)


def _two_columns(logit: Floats) -> Floats:
    p = 1.0 / (1.0 + np.exp(-logit))
    return np.stack([1.0 - p, p], axis=-1)


def _classifier(x: Floats, y: Ints, x_cal: Floats, *, y_cal: Ints) -> tuple[Any, Any, Floats]:
    """The isotonically calibrated model for labels, the Platt logit, and the weights of that logit."""
    try:
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.frozen import FrozenEstimator
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise MissingExtraError("the triage environment", "reproduce") from error
    model = LogisticRegression(C=1.0, max_iter=1000).fit(x, y)
    isotonic = CalibratedClassifierCV(FrozenEstimator(model), method="isotonic").fit(x_cal, y_cal)
    platt = CalibratedClassifierCV(FrozenEstimator(model), method="sigmoid").fit(x_cal, y_cal)
    sigmoid = platt.calibrated_classifiers_[0].calibrators[0]

    def logit(cases: Floats) -> Floats:
        return np.asarray(-(sigmoid.a_ * model.decision_function(cases) + sigmoid.b_))

    return isotonic, logit, -sigmoid.a_ * model.coef_[0]


def _split(y: Ints, seed: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Stratified 60 / 20 / 10 / 10: 341, 114, 57 and 57 patients."""
    from sklearn.model_selection import train_test_split

    train, rest = train_test_split(np.arange(len(y)), test_size=228, stratify=y, random_state=seed)
    calibrate, test = train_test_split(rest, test_size=114, stratify=y[rest], random_state=seed)
    plain, shifted = train_test_split(test, test_size=_N_TEST, stratify=y[test], random_state=seed)
    return train, calibrate, plain, shifted


def _breast_cancer() -> tuple[Floats, Ints]:
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError as error:
        raise MissingExtraError("the triage environment", "reproduce") from error
    x, y = load_breast_cancer(return_X_y=True)
    return np.asarray(x, dtype=float), np.asarray(y, dtype=np.int64)
