"""A service with a person and two agents, for a browser."""

import json
import shutil

from service_running import Running, until

from bot_orch.service.config import parse_config

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
]


def chromium_path():
    return next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )


def serve(database, label="good", answer_within_s=600.0, token=""):
    """``label`` is what the agent called model says; it may be anything. With a ``token`` one must sign in."""
    document = {
        "version": 1,
        "database": str(database),
        "listen": {"host": "127.0.0.1", "port": 0},
        "router": {"policy": "bot", "floor": 0.05, "seed": 5},
        "agents": [
            {"id": "model", "kind": "simulated", "params": {"median_s": 0.0, "profile": {label: 1.0}}},
            {"id": "person", "kind": "human", "timeout_s": answer_within_s},
        ],
    }
    if token:
        document["tokens"] = [{"name": "ada", "scopes": ["queue", "decide"], "env": "TOKEN"}]
    running = Running(parse_config(json.dumps(document)), environment={"TOKEN": token})
    running.url = f"http://127.0.0.1:{running.port}"
    return running


def serve_many(database, count, clock=None):
    """A service with many agents that answer at once, the last one a person; ``clock`` makes days pass."""
    agents = [
        {
            "id": f"agent-{number:02}",
            "kind": "simulated",
            "price": {"per_call_usd": 0.001 * (1 + number % 7)},
            "params": {"seed": number, "median_s": 0.0, "profile": {"good": 1.0}},
        }
        for number in range(count - 1)
    ]
    agents.append({"id": f"agent-{count - 1:02}", "kind": "human", "timeout_s": 600.0})
    document = {
        "version": 1,
        "database": str(database),
        "listen": {"host": "127.0.0.1", "port": 0},
        "router": {"policy": "bot", "floor": 0.5, "seed": 5, "objective": {"usd": 2.0}},
        "agents": agents,
    }
    running = Running(parse_config(json.dumps(document)), clock=clock)
    running.url = f"http://127.0.0.1:{running.port}"
    return running


def serve_two(database):
    """A service with a cheap and a dear agent."""
    qualities = {"small": (0.5, 0.002), "large": (0.9, 0.02)}
    document = {
        "version": 1,
        "database": str(database),
        "listen": {"host": "127.0.0.1", "port": 0},
        "router": {"policy": "bot", "floor": 0.3, "seed": 5},
        "agents": [
            {
                "id": name,
                "kind": "simulated",
                "price": {"per_call_usd": usd},
                "params": {"seed": 1, "median_s": 0.0, "quality": quality},
            }
            for name, (quality, usd) in qualities.items()
        ],
    }
    running = Running(parse_config(json.dumps(document)))
    running.url = f"http://127.0.0.1:{running.port}"
    return running


def submit(running, text="Is it?"):
    body = {"task": {"id": "t", "kind": "review", "text": text}, "eligible": ["person"], "background": True}
    task = running.post("/v1/tasks", body).json()["id"]
    until(lambda: any(t["text"] == text for t in running.get("/v1/queue").json()["tickets"]))
    return task


def output(running, task):
    return until(lambda: (v := running.get(f"/v1/tasks/{task}").json())["status"] != "running" and v)


def settle(page, selector):
    """Wait for something of the next page, and for its scripts: a key pressed before they run is lost."""
    page.wait_for_selector(selector)
    page.wait_for_load_state("load")


def go(page, url):
    """Open a page, also while the one before is just reloading itself."""
    for _ in range(5):
        try:
            page.goto(url)
        except Exception as error:
            if "interrupted" not in str(error):
                raise
        else:
            return
    raise AssertionError(f"{url} was interrupted again and again")
