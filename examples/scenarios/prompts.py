"""Two agents, each good at one kind of prompt; a plain client sends both kinds, and the text alone tells them apart."""

from __future__ import annotations

from collections.abc import Sequence

from play import HERE, Phase, PhaseResult, Scenario, main

from bot_orch.agents import CallReply, CallRequest, Usage

_THINGS = ("river", "harbour", "lantern", "orchard", "winter", "engine", "kettle", "meadow")
_ROUTER = "{policy: auto, seed: 7, floor: 0.02, encoder: builtin}"
_AGENTS = "".join(f"\n  - {{id: {name}, kind: python, path: '{HERE}/prompts:{name}'}}" for name in ("coder", "poet"))


def coder(request: CallRequest) -> CallReply:
    """A simulated agent that is good at code."""
    return CallReply("return x", usage=Usage(8, 2), reward=0.9 if "def " in request.plain() else 0.3)


def poet(request: CallRequest) -> CallReply:
    """A simulated agent that is good at poems."""
    return CallReply("Roses are red", usage=Usage(8, 3), reward=0.3 if "def " in request.plain() else 0.9)


def _prompt(number: int) -> tuple[str, str]:
    thing, other = _THINGS[number % 8], _THINGS[(number // 3) % 8]
    if (number * 7) % 16 < 8:
        return "code", f"def {thing}(x): return x[{number}] + {other}(x)  # what is wrong here?"
    return "poem", f"A short poem about a {thing} and the {other}, please"


def _moved(played: Sequence[PhaseResult]) -> str:
    (phase,) = played
    code, poem = phase.share("coder", "code", last=0.4), phase.share("poet", "poem", last=0.4)
    return f"prompts: coder gets {code:.0%} of the code, poet {poem:.0%} of the poems, because the prompt is context"


SCENARIO = Scenario(
    (Phase("code and poems arrive mixed", _ROUTER, _AGENTS),),
    prompt=_prompt,
    moved=_moved,
    rounds=250,
)

if __name__ == "__main__":
    main(SCENARIO)
