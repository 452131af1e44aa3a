"""The built-in encoder: stateless, of fixed width, and sensitive to what a text is about."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot_orch import InvalidInputError
from bot_orch.encoders import HashedText, encoder_version

ENCODE = HashedText()


@given(st.text(max_size=300))
def test_any_text_has_the_same_width_and_finite_features(text):
    features = ENCODE(text)
    assert len(features) == ENCODE.width == 70 and np.isfinite(features).all()
    assert ENCODE(text) == features == HashedText()(text)
    norm = float(np.linalg.norm(features[:64]))
    assert norm == pytest.approx(1.0) or norm == 0.0


def alike(one, two):
    return float(np.dot(ENCODE(one)[:64], ENCODE(two)[:64]))


def test_texts_about_the_same_are_more_alike():
    code = "Write a python function that sorts a list of numbers."
    assert alike(code, "Write a python function to sort numbers in a list") > 0.4
    assert alike(code, "Who painted the ceiling of the Sistine Chapel?") < 0.4


def test_words_count_by_their_letters_and_not_by_their_place():
    assert alike("alpha beta gamma delta", "delta gamma beta alpha") > 0.5
    assert alike("ALPHA beta", "alpha BETA") == pytest.approx(1.0)


def test_the_shape_of_a_text_is_told():
    length, digits, code, foreign, question, lines = ENCODE("a = 12\nb = ü?")[64:]
    assert digits == pytest.approx(2 / 14) and code == pytest.approx(2 / 14) and foreign == pytest.approx(2 / 14)
    assert question == 0.25 and lines == 0.05 and length == pytest.approx(np.log1p(13) / 10)


def test_a_long_text_is_known_by_its_beginning_and_its_length():
    long, longer = "word " * 5000, "word " * 6000
    assert ENCODE(long)[:64] == ENCODE(longer)[:64] and ENCODE(long)[64] < ENCODE(longer)[64]


def test_hashes_do_not_change_between_releases():
    """The log keeps encoded numbers under the encoder's version: other numbers need another version."""
    assert encoder_version(ENCODE) == "hashing@1:64"
    assert np.flatnonzero(HashedText(8)("hello")[:8]).tolist() == PLACES
    assert np.round(HashedText(8)("hello")[:8], 6).tolist() == NUMBERS


def test_too_few_dimensions_are_refused():
    with pytest.raises(InvalidInputError, match=r"encoder\.dimensions: is 0"):
        HashedText(0)


PLACES = [2, 3, 4]
NUMBERS = [0.0, 0.0, 0.57735, 0.57735, -0.57735, 0.0, 0.0, 0.0]
