"""The built-in encoder: stateless, of fixed width, words stay apart, and all texts are sampled alike."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot_orch import InvalidInputError
from bot_orch.encoders import HashedWords, encoder_version, spread_words
from bot_orch.encoders.words import BUCKETS

ENCODE = HashedWords()
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SCRIPTS = (
    "",
    "naïve Ünïcode",
    "Привет, мир",
    "नमस्ते दुनिया",
    "شكرا جزيلا",
    "안녕 세상",
    "你好世界",
    "こんにちは",
    "สวัสดี",
    "🎉👩‍🚀",
    "\ud800x",
)


def codes(text, encode=ENCODE):
    return {int(code) for code in encode(text)[6:] if code}


def vocabulary(n, seed=1):
    draw = random.Random(seed)  # noqa: S311
    return sorted({"".join(draw.choices(LETTERS, k=draw.randint(2, 9))) for _ in range(n)})


@given(st.text(max_size=300) | st.text(st.characters(), max_size=80) | st.sampled_from(SCRIPTS))
def test_any_text_gives_seventy_exact_numbers(text):
    numbers = ENCODE(text)
    assert len(numbers) == ENCODE.width == 70 and ENCODE.slots == 64
    assert np.isfinite(numbers).all() and all(0.0 <= each <= 2.0 for each in numbers[:6])
    assert ENCODE(text) == numbers == HashedWords()(text)
    slots = np.array(numbers[6:])
    assert np.array_equal(slots.astype(np.float32), slots) and np.array_equal(slots, np.round(slots))
    used = slots[slots > 0.0]
    assert np.all(np.diff(used) > 0.0) and used.max(initial=0.0) <= BUCKETS and not slots[len(used) :].any()


@given(st.lists(st.sampled_from(vocabulary(400)), max_size=120), st.randoms(use_true_random=False))
def test_order_case_repetition_and_punctuation_do_not_count(words, draw):
    other = [word.upper() if draw.random() < 0.5 else word for word in words + words[:3]]
    draw.shuffle(other)
    assert codes(" ".join(words)) == codes(", ".join(other)) == codes("(" + "); - ".join(other) + ")")


def joined_alike(encode, one, two):
    """Whether the sketch of two texts joined is that of their sketches."""
    joined = codes(" ".join([*one, *two]), encode)
    return joined == set(sorted(codes(" ".join(one), encode) | codes(" ".join(two), encode))[:64])


def first_ones(text):
    """A variant that keeps the words that come first, not those of the smallest hash."""
    kept = list(dict.fromkeys(text.lower().split()))[:64]
    return (*ENCODE(text)[:6], *HashedWords(4096)(" ".join(kept))[6:])


SETS = st.lists(st.sampled_from(vocabulary(600)), min_size=80, max_size=300, unique=True)


@given(SETS, SETS)
def test_long_texts_keep_the_same_ones_of_the_words_they_share(one, two):
    assert joined_alike(ENCODE, one, two)
    full = HashedWords(4096)
    shared, last = (
        codes(" ".join(one), full) & codes(" ".join(two), full),
        min(max(codes(" ".join(t))) for t in (one, two)),
    )
    assert {code for code in shared if code <= last} <= codes(" ".join(one)) & codes(" ".join(two))


def test_control_the_first_words_of_a_text_are_no_such_sample():
    words = vocabulary(600)
    assert not joined_alike(first_ones, words[:200], words[100:300])


def test_the_sample_is_even():
    """Of two texts that share half of their words, half of the sample is shared, as far as chance goes."""
    words = vocabulary(9000)
    shares = []
    for start in range(0, 6000, 300):
        one, two = codes(" ".join(words[start : start + 200])), codes(" ".join(words[start + 100 : start + 300]))
        last = min(max(one), max(two))
        low, high = ({code for code in each if code <= last} for each in (one, two))
        shares.append(len(low & high) / len(low | high))
    assert np.mean(shares) == pytest.approx(1 / 3, abs=0.04)


def test_different_words_have_different_codes_mostly():
    words = vocabulary(1000)
    found = {min(codes(word)) for word in words}
    assert len(found) > 0.97 * BUCKETS * (1 - np.exp(-len(words) / BUCKETS)), "as many as balls in bins"


def test_single_ascii_characters_and_signs_are_no_words():
    assert codes("a b 7 - … « » “” ¿? ; :) \n\t ⟶ €") == set()
    assert codes("“hello” — world…") == codes("hello world")


def test_scripts_without_spaces_are_read_by_characters_and_pairs():
    assert len(codes("你好世界")) == 4 + 3
    assert len(codes("你好世界") & codes("再见世界")) == 2 + 1, "two characters and their pair"
    assert codes("你好，世界") == codes("你好 世界") < codes("你好世界")
    assert len(codes("gpt模型")) == 1 + 3 and codes("gpt") < codes("gpt模型")
    assert len(codes("สวัสดีชาวโลก")) > 10 and len(codes("こんにちは世界")) == 7 + 6
    assert len(codes("안녕 세상")) == len(codes("नमस्ते दुनिया")) == len(codes("привет мир")) == 2, "scripts with spaces"
    assert len(codes("🎉🎉🎉")) == 2 and codes("é") and not codes("e")


def test_the_shape_of_a_text_is_told_first():
    length, digits, code, foreign, question, lines = ENCODE("a = 12\nb = ü?")[:6]
    assert digits == pytest.approx(2 / 14) and code == pytest.approx(2 / 14) and foreign == pytest.approx(2 / 14)
    assert question == 0.25 and lines == 0.05 and length == pytest.approx(np.log1p(13) / 10)
    assert ENCODE("") == (0.0,) * 70


@pytest.mark.parametrize("unit", ["word ", "слово ", "世界"])
def test_a_long_text_is_known_by_its_beginning_and_its_length(unit):
    long, longer = unit * 20_000, unit * 24_000 + " more and other"
    assert ENCODE(long)[1:] == ENCODE(longer)[1:] and ENCODE(long)[0] < ENCODE(longer)[0]


def test_many_words_have_the_codes_of_few():
    words = vocabulary(1000)
    assert codes(" ".join(words), HashedWords(4096)) == {min(codes(word)) for word in words}


def test_codes_do_not_change_between_releases():
    """The log keeps the numbers under the encoder's version: other numbers need another version."""
    assert encoder_version(ENCODE) == "words@1:64"
    assert {text: codes(text) for text in KNOWN} == KNOWN


@pytest.mark.parametrize("slots", [0, 4097])
def test_a_wrong_number_of_slots_is_refused(slots):
    with pytest.raises(InvalidInputError, match=rf"encoder\.slots: is {slots}; pass a number from 1 to 4096"):
        HashedWords(slots)


def test_words_are_spread_with_norm_one():
    rows = np.array([ENCODE("alpha beta gamma"), ENCODE("gamma"), ENCODE("")])
    found = spread_words(rows, 64)
    assert np.array_equal(found[:, :6], rows[:, :6]) and np.linalg.norm(found[:, 6:], axis=1) == pytest.approx(
        [1, 1, 0]
    )
    assert np.array_equal(spread_words(rows[0], 64), found[0]) and spread_words(rows, 0) is rows
    assert found[0, 6:] @ found[1, 6:] == pytest.approx(3**-0.5), "one word of three"


KNOWN = {"Hello, world": {2993, 3119}, "naïve Привет": {1613, 2208}, "你好": {1063, 3751, 3784}}
