"""Synthetic environments: closed forms, exact distances, references, and that seeds do not depend on the batch."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.synthetic.alignment import (
    REFERENCES,
    agent_cloud,
    places,
    reference_cloud,
    reference_places,
)
from bot_orch.lab.environments.synthetic.episodes import (
    NOISE_FORMS,
    draws,
    episodes,
    observed_alignment,
    realise,
    with_noise,
)
from bot_orch.lab.environments.synthetic.settings import COMMON, ENVIRONMENTS, SETTINGS, calibrated, declared
from bot_orch.lab.environments.synthetic.tasks import SHAPES, half_moons, laws_by_segment, segments
from bot_orch.rng import generator
from bot_orch.survival import GammaFrailty
from bot_orch.transport import Barycenter, Cloud, Memory, Sliced


@pytest.fixture(scope="module")
def drawn():
    return {name: draws(setting, range(200)) for name, setting in ENVIRONMENTS.items()}


def w2(x, y):
    cost = cdist(x, y, "sqeuclidean")
    return np.sqrt(cost[linear_sum_assignment(cost)].mean())


def test_mean_rewards_are_matched_near_one_half(drawn):
    for name, parts in drawn.items():
        per_agent = parts.latent.mean(axis=(0, 1))
        tolerance = 0.03 if name == "noniid-bb" else 0.006  # bridges are few paths, not many rounds
        assert np.abs(per_agent - 0.5).max() < tolerance, name


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_every_shape_has_mean_zero_and_sd_one(shape):
    x = SHAPES[shape](generator("shape", shape).normal(size=200_000))
    assert abs(x.mean()) < 0.01 and abs(x.std() - 1.0) < 0.01


def test_laws_differ_in_skewness_and_bimodality(drawn):
    x = drawn["iid-m"].latent.reshape(-1, 6)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    skew, kurtosis = (z**3).mean(axis=0), (z**4).mean(axis=0)
    assert skew[2] > 0.4 and skew[3] < -0.4 and abs(skew[[0, 1, 4, 5]]).max() < 0.05
    assert kurtosis[5] < 1.3 < kurtosis[4] < 2.0 < 2.8 < kurtosis[0]  # two peaks, flat, normal


def test_variances_change_at_the_changepoints_and_means_do_not(drawn):
    setting, latent = ENVIRONMENTS["noniid-ps"], drawn["noniid-ps"].latent
    segment = segments(setting, 200)
    assert np.flatnonzero(np.diff(segment)).tolist() == [66, 132]
    for k, laws in enumerate(laws_by_segment(setting)):
        part = latent[segment == k].reshape(-1, 6)
        wanted = np.array([law.sd for law in laws])
        assert np.abs(part.mean(axis=0) - 0.5).max() < 0.012
        assert np.all(np.abs(part.std(axis=0) / wanted - 1.0) < 0.1)  # the widest are clipped


def test_correlation_between_agents_changes_with_the_segment(drawn):
    setting, latent = ENVIRONMENTS["noniid-ps"], drawn["noniid-ps"].latent
    segment = segments(setting, 200)
    for k, rho in enumerate(setting.correlation):
        table = np.corrcoef(latent[segment == k].reshape(-1, 6).T)
        assert abs(table[np.triu_indices(6, 1)].mean() - rho) < 0.03


def test_bridges_start_and_end_where_they_should(drawn):
    parts, setting = drawn["noniid-bb"], ENVIRONMENTS["noniid-bb"]
    for path in (parts.centre, parts.mean - 0.5):
        assert np.abs(path[[0, -1]]).max() < 1e-12
    assert abs(parts.centre[100].std() - 0.5) < 0.04  # sqrt(u (1 - u)) at half time
    assert abs(parts.mean[100].std() - setting.mean_scale / 2) < 0.01


def test_means_swing_with_the_stated_period_and_amplitude(drawn):
    mean, setting = drawn["noniid-sd"].mean, ENVIRONMENTS["noniid-sd"]
    np.testing.assert_allclose(mean[0], mean[setting.period])
    assert mean.max() == pytest.approx(0.5 + setting.mean_amplitude, abs=1e-3)


def test_half_moons_are_scikit_learns():
    sklearn = pytest.importorskip("sklearn.datasets")
    ours = half_moons(generator("moons"), 4000, 0.0)
    theirs = sklearn.make_moons(4000, shuffle=False)[0] - [0.5, 0.25]
    assert cdist(ours, theirs).min(axis=1).max() < 0.01


def test_frailty_has_mean_one_and_the_stated_variance(drawn):
    for name in ("iid-g", "noniid-ps"):
        theta = drawn[name].theta
        assert abs(theta.mean() - 1.0) < 0.02 and abs(theta.var() - COMMON.frailty_variance) < 0.03
    lag = np.corrcoef(drawn["noniid-ps"].theta[1:].ravel(), drawn["noniid-ps"].theta[:-1].ravel())[0, 1]
    assert lag > 0.3 > abs(np.corrcoef(drawn["iid-g"].theta[1:].ravel(), drawn["iid-g"].theta[:-1].ravel())[0, 1])


def test_frailty_makes_completion_times_of_two_agents_dependent():
    """With uniform, independent latent rewards this is the paper's model: Kendall's tau is v / (v + 2)."""
    u, law = generator("frailty").random((40_000, 3)), GammaFrailty(COMMON.frailty_variance)
    theta = law.sample(u[:, 2])
    first, second = -np.log(u[:, :2].T) / theta
    half = len(theta) // 2
    concordant = np.sign(first[:half] - first[half:]) * np.sign(second[:half] - second[half:])
    assert concordant.mean() == pytest.approx(law.variance / (law.variance + 2.0), abs=0.02)


def test_reward_is_the_papers_formula():
    runs = episodes(ENVIRONMENTS["iid-g"], range(4))
    w, theta = runs.stream.alignment, runs.drawn.theta[..., None]
    hazard = runs.setting.base_hazard * np.exp(-COMMON.hazard_slope * w)
    survival = np.exp(-hazard * runs.time_s)
    np.testing.assert_allclose(runs.stream.reward, np.where(runs.event, survival**theta, 0.0), atol=1e-12)
    np.testing.assert_allclose(runs.stream.reward[runs.event], runs.drawn.latent[runs.event])


def test_misaligned_agents_are_slower():
    runs = episodes(ENVIRONMENTS["iid-g"], range(50))
    w = runs.stream.alignment
    near = w < np.median(w)
    assert runs.event[near].mean() > runs.event[~near].mean() + 0.05
    assert runs.time_s[near].mean() < runs.time_s[~near].mean() - 0.05


@pytest.mark.parametrize("name", ["iid-m", "noniid-ps"])
def test_alignment_is_the_exact_w2_between_the_clouds(name):
    setting = ENVIRONMENTS[name]
    runs = episodes(setting, [3])
    segment = segments(setting, setting.rounds).astype(int)
    for t in (0, 70, 199):
        wanted = reference_cloud().points * setting.output_spread + runs.task[t, 0]
        for i, law in enumerate(laws_by_segment(setting)[segment[t]]):
            outputs = agent_cloud(law, i).points * setting.output_spread + places(setting.radius)[i]
            assert runs.stream.alignment[t, 0, i] == pytest.approx(w2(outputs, wanted), rel=1e-9)


def test_alignment_agrees_with_pot():
    ot = pytest.importorskip("ot")
    setting = ENVIRONMENTS["iid-g"]
    runs = episodes(setting, [0], 5)
    wanted = reference_cloud().points * setting.output_spread + runs.task[4, 0]
    outputs = agent_cloud(setting.laws[5], 5).points * setting.output_spread + places(setting.radius)[5]
    value = np.sqrt(ot.emd2(ot.unif(24), ot.unif(24), ot.dist(outputs, wanted)))
    assert runs.stream.alignment[4, 0, 5] == pytest.approx(value, rel=1e-9)


def test_a_batch_of_seeds_holds_the_same_runs_as_single_seeds():
    for setting in SETTINGS.values():
        together, alone = episodes(setting, [2, 7, 11]), episodes(setting, [7])
        for a, b in (
            (together.stream.reward, alone.stream.reward),
            (together.stream.alignment, alone.stream.alignment),
            (observed_alignment(together), observed_alignment(alone)),
        ):
            np.testing.assert_array_equal(a[:, 1], b[:, 0])


def test_a_longer_stationary_run_begins_like_a_shorter_one():
    short, long = episodes(ENVIRONMENTS["iid-g"], [5], 50), episodes(ENVIRONMENTS["iid-g"], [5], 90)
    np.testing.assert_array_equal(short.stream.reward, long.stream.reward[:50])


def test_observation_noise_is_common_and_does_not_touch_the_score():
    runs = episodes(ENVIRONMENTS["iid-m"], range(40))
    noise = observed_alignment(runs) - runs.stream.alignment
    assert abs(noise.std() - COMMON.noise) < 0.01 and abs(noise.mean()) < 0.02
    far = runs.stream.alignment > np.median(runs.stream.alignment)
    assert abs(noise[far].std() / noise[~far].std() - 1.0) < 0.03


def test_forms_of_noise():
    runs = episodes(ENVIRONMENTS["iid-g"], range(40))
    w, draws_ = runs.stream.alignment, runs.drawn.noise
    np.testing.assert_array_equal(with_noise(w, draws_, COMMON.noise), observed_alignment(runs))
    near, far = w < np.quantile(w, 0.2), w > np.quantile(w, 0.8)
    grows = {form: (with_noise(w, draws_, 0.3, form=form) - w) for form in NOISE_FORMS}
    assert abs(grows["additive"][far].std() / grows["additive"][near].std() - 1.0) < 0.03
    assert grows["relative"][far].std() > 1.5 * grows["relative"][near].std()
    per_agent = grows["agent"].std(axis=(0, 1)) / w.mean(axis=(0, 1))
    assert np.abs(per_agent - 0.3).max() < 0.01
    with pytest.raises(InvalidInputError, match="form"):
        with_noise(w, draws_, 0.3, form="uniform")


@pytest.mark.parametrize(
    ("reference", "memory"),
    [("global", Memory.everything()), ("window", Memory.window(20)), ("fading", Memory.fading(10.0))],
)
def test_references_are_wasserstein_barycenters_of_earlier_tasks(reference, memory):
    runs = episodes(ENVIRONMENTS["noniid-sd"], [1], 40)
    geometry = Sliced(dimension=2, cells=8)
    learned = Barycenter(geometry, memory)
    state = learned.start()
    cloud = reference_cloud().points
    for t in range(39):
        learned.update(state, Cloud(cloud + runs.task[t, 0]))
    place = reference_places(runs.task, reference)[39, 0]
    np.testing.assert_allclose(geometry.embed(Cloud(cloud + place)), learned.embedding(state), atol=1e-9)


def test_references_do_not_use_the_current_task():
    task = episodes(ENVIRONMENTS["noniid-bb"], [0], 30).task
    changed = task.copy()
    changed[20:] += 100.0
    for reference in REFERENCES[1:]:
        before, after = reference_places(task, reference), reference_places(changed, reference)
        np.testing.assert_array_equal(before[:21], after[:21])
        assert np.abs(after[21] - before[21]).max() > 1.0
    with pytest.raises(InvalidInputError, match="reference"):
        reference_places(task, "nearest")


def test_every_parameter_has_a_reason_and_a_source():
    lines = list(declared())
    assert {line.source for line in lines} == {"paper", "calibrated", "calibrated jointly", "ablation", "chosen"}
    assert all(len(line.why) > 5 for line in lines)
    assert {line.environment for line in lines} == {"common", *SETTINGS}
    assert len({setting.output_spread for setting in SETTINGS.values()}) == 1
    assert "radius" in calibrated(SETTINGS["iid-g"]) and "laws" not in calibrated(SETTINGS["iid-g"])


def test_geometry_only_gives_units_to_the_draws():
    setting = ENVIRONMENTS["iid-g"]
    parts = draws(setting, [0])
    wide = realise(replace(setting, radius=2 * setting.radius), parts)
    np.testing.assert_array_equal(wide.drawn.latent, parts.latent)
    assert wide.stream.alignment.mean() > realise(setting, parts).stream.alignment.mean()
