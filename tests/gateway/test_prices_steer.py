"""A plain client that reports nothing: the price table alone moves its traffic."""

import pytest
from remote import GOOD, HELLO

CHEAP, DEAR = "output_usd_per_million: 0.1", "output_usd_per_million: 1000"


@pytest.mark.parametrize(("objective", "least"), [("objective: {usd: 50.0}", 28), ("seed: 5", 0)])
def test_equal_endpoints_at_unequal_prices(endpoint, serve, agent, client, objective, least):
    cheap = agent(endpoint.script(GOOD), "cheap", price=CHEAP)
    dear = agent(endpoint.script(GOOD), "dear", price=DEAR)
    service = serve(cheap, dear, router=objective, policy="auto")
    chat = client(service).chat.completions.with_raw_response
    asked = [chat.create(model="auto", messages=HELLO).headers["x-bot-orch-agent"] for _ in range(40)]
    assert asked[8:].count("cheap") >= least
    assert least or asked.count("dear") >= 8, "without an objective prices do not count"
