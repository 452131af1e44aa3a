import numpy as np
from scipy.stats import kstest

from bot_orch.rng import derive_key, derive_keys, generator, uniform


def test_arrays_and_numbers_agree():
    keys = derive_keys(["x"], range(50))
    for counter in (0, 1, 2**40):
        assert uniform(keys, counter).tolist() == [uniform(int(k), counter) for k in keys]


def test_a_single_key_in_an_array_does_not_warn():
    assert uniform(derive_keys(["x"], [0]).reshape(()), 5) == uniform(derive_key("x", 0), 5)


def test_uniform_along_the_counter_and_across_keys():
    along = [uniform(derive_key("a"), c) for c in range(20_000)]
    across = uniform(derive_keys(["b"], range(20_000)), 7)
    assert kstest(along, "uniform").pvalue > 1e-3
    assert kstest(across, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(along[:-1], along[1:])[0, 1]) < 0.03


def test_paths_are_told_apart():
    paths = [("a", 1), ("a", "1"), ("a1",), ("a", 1, 0)]
    assert len({derive_key(*path) for path in paths}) == len(paths)
    assert generator("a", 1).random() != generator("a", 2).random()
