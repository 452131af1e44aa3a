import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.arrays import decode, encode
from bot_orch.numerics.choice import argmax_ties, draw, softmax, with_uniform_share
from bot_orch.policies.registry import available_policies

finite = st.floats(-1e3, 1e3)
vectors = arrays(float, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=finite)


@given(vectors, st.floats(0, 1, exclude_max=True), st.floats(0, 0.5))
def test_draws_land_on_possible_agents(x, u, floor):
    for p in (softmax(x), argmax_ties(x), with_uniform_share(softmax(x), floor)):
        assert np.all(p >= 0.0)
        assert np.allclose(p.sum(axis=-1), 1.0)
        agent = draw(p, np.full(len(x), u))
        assert np.all(np.take_along_axis(p, agent[:, None], axis=-1) > 0.0)


@given(vectors, finite)
def test_softmax_ignores_a_common_shift(x, shift):
    assert np.allclose(softmax(x), softmax(x + shift), atol=1e-9)


@given(arrays(float, st.tuples(st.integers(0, 3), st.integers(0, 3)), elements=st.floats(width=64)))
def test_arrays_survive_json_bit_for_bit(x):
    assert decode(encode({"x": x}))["x"].tobytes() == x.tobytes()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("decide"), st.sets(st.integers(0, 3))),
        st.tuples(st.just("observe"), st.integers(0, 30), st.floats(0, 1)),
        st.tuples(st.just("censor"), st.integers(0, 30)),
        st.just(("add",)),
        st.tuples(st.just("remove"), st.integers(0, 5)),
        st.just(("reload",)),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(available_policies())), steps)
def test_any_sequence_of_events_keeps_the_orchestrator_sound(name, events):
    """Decisions, late outcomes, agents coming and going, restarts: propensities stay probabilities."""
    router, made, added = Orchestrator(["a", "b", "c", "d"], name, seed=1), [], 0
    for event in events:
        match event[0]:
            case "decide":
                eligible = [router.agents[i] for i in event[1] if i < len(router.agents)] or None
                decision = router.decide(Task(), eligible)
                assert decision.agent in (eligible or router.agents)
                assert np.isclose(decision.propensities.sum(), 1.0)
                assert np.all(np.isfinite(decision.terms.score()))
                made.append(decision.id)
            case "observe" | "censor" if router.pending:
                target = router.pending[event[1] % len(router.pending)]
                censored = Outcome.censored(elapsed_s=1.0, reason="timeout")
                router.observe(target, censored if event[0] == "censor" else Outcome.completed(reward=event[2]))
            case "add":
                added += 1
                router.add_agent(f"new-{added}")
            case "remove" if len(router.agents) > 1:
                router.remove_agent(router.agents[event[1] % len(router.agents)])
            case "reload":
                copy = Orchestrator.from_json(router.to_json())
                assert copy.fingerprint() == router.fingerprint()
                router = copy
    assert set(router.pending) <= set(made)
    assert len(set(made)) == len(made)
