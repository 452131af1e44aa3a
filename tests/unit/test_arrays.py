"""Arrays in JSON."""

import json

import numpy as np
import pytest

from bot_orch.arrays import decode, encode
from bot_orch.errors import StateFormatError


def test_sparse_arrays_are_deflated_without_loss():
    sparse = np.zeros((40, 50))
    sparse[3, 7], sparse[39, 49] = 0.1, np.nan
    dense = np.random.default_rng(0).random(500)
    document = encode({"sparse": sparse, "dense": dense, "small": np.zeros(3)})
    assert [("deflated" in document[name]) for name in ("sparse", "dense", "small")] == [True, False, False]
    assert len(document["sparse"]["deflated"]) < sparse.nbytes / 50
    back = decode(json.loads(json.dumps(document)))
    assert back["sparse"].tobytes() == sparse.tobytes() and back["dense"].tobytes() == dense.tobytes()


@pytest.mark.parametrize("shape", [[10, 50], [4000, 50], [10**9, 10**9]])
def test_deflated_data_of_another_length_are_refused(shape):
    document = encode({"x": np.zeros((40, 50))})
    document["x"]["shape"] = shape
    with pytest.raises(StateFormatError, match=r"arrays\.x: damaged"):
        decode(document)
