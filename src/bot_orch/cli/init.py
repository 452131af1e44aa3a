"""``bot-orch init``: write a commented configuration file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bot_orch.errors import ResultsExistError

DESCRIPTION = """\
Write a commented, runnable configuration with simulated agents to replace by your own, and next to it its JSON Schema
(bot-orch.schema.json), with which editors complete and check it."""
EXAMPLES = "example: bot-orch init bot-orch.yaml && bot-orch serve bot-orch.yaml"


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("config", type=Path, nargs="?", default=Path("bot-orch.yaml"), metavar="FILE")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.config.exists() and not arguments.force:
        raise ResultsExistError(f"{arguments.config}: exists; pass --force to overwrite it")
    write_configuration(arguments.config, STARTER)
    print(f"wrote {arguments.config}; next: bot-orch serve {arguments.config}")  # noqa: T201
    return 0


def write_configuration(path: Path, text: str) -> None:
    """Write a configuration, and its JSON Schema into the same folder."""
    from bot_orch.files import write_atomically
    from bot_orch.service.operations.schema import SCHEMA_FILE, config_schema

    schema = json.dumps(config_schema(), indent=2) + "\n"
    write_atomically(path.with_name(SCHEMA_FILE), schema.encode())
    write_atomically(path, text.encode())


STARTER = """\
# yaml-language-server: $schema=bot-orch.schema.json
# BOT-Orch: who should do it, learned as it goes. Check with: bot-orch validate FILE. Run with: bot-orch serve FILE.
version: 1

# The log: one SQLite file (next to this one), or :memory: to forget everything at the end. Several processes share one
# in PostgreSQL: postgresql://user:${DATABASE_PASSWORD}@host:5432/name; see docs/how-to/postgresql.md.
database: bot-orch.sqlite

listen:
  host: 127.0.0.1        # without tokens only this machine may ask
  port: 8080

# Callers. The token is in an environment variable, or only its SHA-256 is here:
#   printf %s "$TOKEN" | sha256sum
# tokens:
#   - {name: app,  scopes: [decide, feedback], env: BOT_ORCH_TOKEN_APP}
#   - {name: desk, scopes: [queue],            sha256: "64 hex digits"}
#   - {name: ops,  scopes: [admin],            env: BOT_ORCH_TOKEN_OPS}
#   - {name: team, scopes: [decide],           env: BOT_ORCH_TOKEN_TEAM, limits: {requests_per_minute: 600, usd: 20}}

router:
  policy: auto           # see: python -c "import bot_orch; print(*bot_orch.available_policies())"
  lambda: auto           # weight of the distance to what a task wants: a number, or auto (calibrates itself)
  # alignment: {latency_target_s: 5}   # compare times with a service level, or labels with rewarded ones:
  # alignment: {geometry: {name: labels, labels: 3}, reference: {source: accepted}}
  n_features: 0          # how many numbers task.features has: with them the policy tells tasks apart
  encoder: builtin       # the prompt tells tasks apart: the log keeps 70 numbers of it, never the text
  objective:             # what to optimise: quality (the reward, 0 to 1) less what it costs
    usd: 5.0             # reward that a dollar is worth: 0.05 of quality is traded for a cent
    seconds: 0.001       # reward that a second is worth
    # first_token: 0.01  # reward that a second until the first token is worth
  # or: the least dollars that keep quality within 2 % of the best agent's
  # minimise: usd
  # subject_to: {quality_within: 0.02, p95_seconds: 8, p95_first_token_seconds: 2, usd_per_task: 0.01, usd_per_day: 20}
  floor: 0.02            # share of all traffic that explores, so that the log can judge other policies
  horizon_s: 86400       # a decision without feedback for this long is silence (docs/concepts/silence.md)
  # patience_s: 30       # silence that lasts this long has reward zero
  attempts: 3            # agents asked for one task, at most
  # checks: [tests]      # judges that look at every answer before it is delivered; signal: logprobs says how sure it is
  sticky_s: 0            # a session stays with its agent for so long
  # success_reward: 1.0  # what an answer earns without feedback; leave out to wait for feedback
  # budget: {per_request_usd: 0.05, window_usd: 20.0, window_s: 86400, on_exhausted: cheapest, pace: true}
  #   on_exhausted: with the window's money used up, refuse (503), or ask the cheapest agent all the same
  #   pace: spread the money over the window
  # rules:
  #   - {kind: legal, allow: [person]}
  #   - {kind: smalltalk, pin: small-model}
  #   - {deny: [person]}

# Who can do the work. These pretend; replace them by your own.
agents:
  - id: small-model
    kind: simulated
    price: {per_call_usd: 0.001}                 # or input_usd_per_million and output_usd_per_million
    settings: {quality: 0.6, median_s: 0.1}

  - id: large-model
    kind: simulated
    price: {per_call_usd: 0.02}
    settings: {quality: 0.9, median_s: 0.4}

  # Any OpenAI-compatible endpoint. Keys come from the environment, never from this file.
  # - id: hosted
  #   kind: openai
  #   price: {input_usd_per_million: 0.5, output_usd_per_million: 1.5}
  #   limits: {first_byte_s: 20, total_s: 60, concurrency: 8}
  #   settings: {base_url: "https://api.example.com/v1", model: some-model, api_key: "${EXAMPLE_API_KEY}"}

  # A function of yours, a program that reads JSON and writes JSON, a person with a queue in the browser:
  # - {id: script,  kind: python,     settings: {path: "my_package.my_module:answer"}}
  # - {id: program, kind: subprocess, settings: {command: ["./answer"]}}
  # - {id: person,  kind: human,      settings: {answer_within_s: 3600}}
"""
