"""Prices as providers bill them: the table, files, cached tokens, images, budgets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot_orch.agents import Price, Usage
from bot_orch.agents.prices import price_of, read_prices, shipped_prices
from bot_orch.agents.replies import usage_from
from bot_orch.cli import main
from bot_orch.errors import InvalidInputError
from bot_orch.service.build import make_orchestrator
from bot_orch.service.config import load_config, parse_config
from bot_orch.service.objective import dollar_weight, unpriced
from bot_orch.service.quickstart.found import EndpointFound
from bot_orch.service.quickstart.writing import configuration

CONFIG = """
version: 1
{more}
agents:
  - {{id: small, kind: openai, base_url: "https://api.openai.com/v1", model: gpt-4o-mini}}
  - {{id: own, kind: openai, base_url: "https://models.example.com/v1", model: gpt-4o{price}}}
"""
LITELLM = {
    "sample_spec": {"input_cost_per_token": 0.0, "litellm_provider": "one of ..."},
    "gpt-9": {
        "litellm_provider": "openai",
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 2e-6,
        "cache_read_input_token_cost": 1e-7,
    },
    "groq/llama": {"litellm_provider": "groq", "input_cost_per_token": 5e-8, "output_cost_per_token": 8e-8},
    "dall-e": {"litellm_provider": "openai", "input_cost_per_pixel": 1e-8},
    "elsewhere/m": {"litellm_provider": "elsewhere", "input_cost_per_token": 1.0},
}


def write(folder, more="", price=""):
    path = folder / "bot-orch.yaml"
    path.write_text(CONFIG.format(more=more, price=price))
    return path


def test_a_known_model_at_a_known_host_has_its_price(tmp_path):
    small, own = load_config(write(tmp_path)).agents
    assert small.price["input_usd_per_million"] == 0.15 and small.price["cached_input_usd_per_million"] == 0.075
    assert own.price == {}, "the same name at another host may cost anything"


def test_a_file_counts_before_the_table_and_a_price_before_both(tmp_path):
    rows = ["host,model,input,output", "api.openai.com,gpt-4o-mini,7,8", "models.example.com,gpt-4o,1,2"]
    (tmp_path / "list.csv").write_text("\n".join(rows))
    small, own = load_config(write(tmp_path, "prices: list.csv", ", price: {per_call_usd: 0.5}")).agents
    assert (small.price["input_usd_per_million"], small.price["output_usd_per_million"]) == (7, 8)
    assert own.price == {"per_call_usd": 0.5}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("host,model\na,b", "no column input"),
        ("host,model,input,output\na,b,cheap,1", "line 2): input: is 'cheap'"),
        ("host,model,input,output\na,b,-1,1", "line 2): input: is '-1'"),
        ("{", "is no JSON"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path, text, said):
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(InvalidInputError, match="prices") as caught:
        load_config(write(tmp_path, "prices: list.csv"))
    assert said in str(caught.value)
    with pytest.raises(InvalidInputError, match=r"missing\.csv"):
        load_config(write(tmp_path, "prices: missing.csv"))


def test_the_table_is_sound():
    rows = shipped_prices()
    assert len({(row.host, row.model) for row in rows}) == len(rows)
    for row in rows:
        price = row.price
        assert 0 < price.input_usd_per_million <= max(price.output_usd_per_million, price.input_usd_per_million)
        assert (price.cached_input_usd_per_million or 0) < price.input_usd_per_million


def test_a_version_costs_what_its_model_does_unless_it_is_listed():
    rows, url = shipped_prices(), "https://api.openai.com/v1"
    assert price_of(url, "gpt-4o-2024-08-06", rows).input_usd_per_million == 2.5
    assert price_of(url, "gpt-4o-2024-05-13", rows).input_usd_per_million == 5
    assert price_of("https://api.anthropic.com/v1", "claude-haiku-4-5-20251001", rows).output_usd_per_million == 5
    assert price_of(url, "gpt-4o-audio-preview", rows) is None


def test_the_list_of_litellm_is_read(tmp_path):
    (tmp_path / "litellm.json").write_text(json.dumps(LITELLM))
    rows = read_prices(tmp_path / "litellm.json")
    assert [(row.host, row.model) for row in rows] == [("api.openai.com", "gpt-9"), ("api.groq.com", "llama")]
    assert rows[0].price == Price(0.0, 1.0, 2.0, 0.1)


# --- usage ------------------------------------------------------------------------------------------------------------

PRICE = Price(0.0, 10.0, 20.0, 1.0, 12.5)


def test_cached_tokens_of_both_interfaces_are_billed_alike():
    """900 of 1000 tokens come from the cache, and 50 of the rest are stored in it (which OpenAI does not bill)."""
    openai = {"prompt_tokens": 1000, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 900}}
    responses = {"input_tokens": 1000, "output_tokens": 10, "input_tokens_details": {"cached_tokens": 900}}
    anthropic = {
        "input_tokens": 50,
        "cache_read_input_tokens": 900,
        "cache_creation_input_tokens": 50,
        "output_tokens": 10,
    }
    assert PRICE.cost(usage_from(openai)) == PRICE.cost(usage_from(responses)) == pytest.approx(0.0021)
    assert PRICE.cost(usage_from(anthropic)) == pytest.approx((50 * 10 + 900 + 50 * 12.5 + 10 * 20) / 1e6)


COUNT = st.integers(0, 10**6)


@given(COUNT, COUNT, COUNT, COUNT)
def test_parts_of_a_prompt_never_exceed_it(fresh, cached, stored, written_):
    counts = {"prompt_tokens": fresh, "prompt_tokens_details": {"cached_tokens": cached}}
    for usage in (
        usage_from(counts),
        usage_from({"input_tokens": fresh, "cache_read_input_tokens": cached, "cache_creation_input_tokens": stored}),
    ):
        assert 0 <= usage.cached_tokens + usage.cache_write_tokens <= usage.input_tokens
        assert PRICE.cost(usage) >= 0
    without = Price(0.0, 10.0, 20.0)
    usage = Usage(fresh + cached, written_, cached_tokens=cached)
    assert without.cost(usage) == pytest.approx(without.cost(Usage(fresh + cached, written_)))


@pytest.mark.parametrize("wrong", [-1, "many", None, True, 1.5])
def test_counts_that_are_no_counts_are_zero(wrong):
    assert usage_from({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": wrong}}).cached_tokens == 0


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_a_budget_per_task_is_not_refused_for_a_guess_of_tokens():
    """500 + 500 tokens would cost more; a price per call is certain, and is refused."""
    text = (
        "version: 1\nrouter: {{subject_to: {{usd_per_task: 0.001}}}}\nagents: [{{id: a, kind: simulated, price: {}}}]"
    )
    by_use = "{input_usd_per_million: 10, output_usd_per_million: 10}"
    assert make_orchestrator(parse_config(text.format(by_use)))._roster.price[0] == pytest.approx(0.01)
    with pytest.raises(InvalidInputError, match="cheapest agent"):
        make_orchestrator(parse_config(text.format("{per_call_usd: 0.01}")))


@pytest.mark.parametrize("limit", ["{budget: {window_usd: 1}}", "{subject_to: {usd_per_task: 1}}", "{}"])
def test_models_without_a_price_under_a_budget_are_named(tmp_path, limit, capsys):
    path = write(tmp_path, f"listen: {{port: 0}}\nrouter: {limit}")
    assert unpriced(load_config(path)) == ([] if limit == "{}" else ["own"])
    assert main(["validate", str(path)]) == 0
    assert ("own have no price" in capsys.readouterr().err) == (limit != "{}")
    assert unpriced(load_config(write(tmp_path, f"router: {limit}", ", price: {per_call_usd: 0}"))) == []


def test_quickstart_fills_in_list_prices():
    known = EndpointFound("openai", "openai", "https://api.openai.com/v1", models=("gpt-4o", "gpt-4o-mini"), key="KEY")
    local = EndpointFound("local", "openai", "http://127.0.0.1:9/v1", models=("gpt-4o",))
    config = parse_config(configuration([known, local], file="a.yaml"), {"KEY": "k"})
    large, small, own = config.agents
    assert (large.price["input_usd_per_million"], small.price["cached_input_usd_per_million"]) == (2.5, 0.075)
    assert own.price == {} and config.router.objective["usd"] == dollar_weight([0.00625, 0.000375])
