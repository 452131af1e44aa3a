"""Names of models: aliases that are honest, and replacements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot_orch.agents.served import is_replacement, same_model

HONEST = [
    ("gpt-4o", "gpt-4o-2024-08-06"),
    ("gpt-4o", "GPT-4o"),
    ("gpt-4o-latest", "gpt-4o-2024-08-06"),
    ("gpt-4", "gpt-4-0613"),
    ("gpt-3.5-turbo", "gpt-3.5-turbo-0125"),
    ("gpt-4-turbo", "gpt-4-turbo-2024-04-09"),
    ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
    ("claude-opus-4", "claude-opus-4@20250514"),
    ("claude-3-5-sonnet", "claude-3-5-sonnet-20241022-v2:0"),
    ("gemini-1.5-pro", "gemini-1.5-pro-002"),
    ("models/gemini-1.5-pro", "gemini-1.5-pro"),
    ("openai/gpt-4o", "gpt-4o-2024-08-06"),
    ("llama3", "llama3:latest"),
    ("gpt-4o-2024-08-06", "gpt-4o"),
    ("o3", "o3-2025-04-16"),
    ("m", "m"),
]
REPLACED = [
    ("gpt-4o", "gpt-4o-mini"),
    ("gpt-4o", "gpt-4o-mini-2024-07-18"),
    ("gpt-4", "gpt-4-turbo-2024-04-09"),
    ("gpt-4", "gpt-4o"),
    ("gpt-5", "gpt-5.1"),
    ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06"),
    ("claude-opus-4-20250514", "claude-sonnet-4-20250514"),
    ("llama3:70b", "llama3:8b"),
    ("qwen-7b", "qwen-72b"),
    ("o1", "o1-mini"),
    ("mixtral-8x7b", "mixtral-8x22b"),
]


@pytest.mark.parametrize(("asked", "served"), HONEST)
def test_honest_aliases(asked, served):
    assert same_model(asked, served) and not is_replacement([asked], [], served)


@pytest.mark.parametrize(("asked", "served"), REPLACED)
def test_other_models(asked, served):
    assert not same_model(asked, served) and is_replacement([asked], [], served)


def test_an_answer_without_a_name_says_nothing():
    assert not is_replacement(["gpt-4o"], [], "")


def test_a_new_version_counts_once():
    first, second = "gpt-4o-2024-05-13", "gpt-4o-2024-08-06"
    assert is_replacement(["gpt-4o"], [first], second)
    assert not is_replacement(["gpt-4o"], [first, second], first)


NAMES = st.text("abcdefgh0123456789-.:/@", min_size=1, max_size=20)


@given(NAMES, NAMES)
def test_the_relation_is_reflexive_and_symmetric(one, other):
    assert same_model(one, one) and same_model(one, other) == same_model(other, one)
