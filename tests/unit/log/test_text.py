"""A task's text is context by itself: its numbers decide, are logged and learned with; the text is never kept."""

import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace

import numpy as np
import pytest
from scribing import Scribe

from bot_orch import InvalidInputError, Orchestrator, Outcome, Router, Task
from bot_orch.core.events import DecisionMade, record_decision, record_task
from bot_orch.core.settings import Settings
from bot_orch.encoders import ENCODERS, AbsentEncoder, HashedWords
from bot_orch.errors import MissingExtraError
from bot_orch.evaluation.rounds import collect
from bot_orch.evaluation.shadow import follow, shadow
from bot_orch.log.ledger import fold
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.verification import replay
from bot_orch.policies.registry import make_policy
from bot_orch.rng import generator

CODE = ("def sort(values):\n    return sorted(values)", "while (i < n) { i++; } // loop", "SELECT a, b FROM t;")
PROSE = ("Who painted the ceiling of the chapel?", "A short poem about rain in June", "Tell me about old Rome")


def request(rng):
    """A text, and whether it is code."""
    code = bool(rng.random() < 0.5)
    return str(rng.choice(CODE if code else PROSE)) + f" number {rng.integers(1000)}", code


def earned(rounds=300, policy="lints", **settings):
    """Mean reward of the last half where one of two agents answers code and the other the rest."""
    rng, router, total = generator("texts", 1), Orchestrator(["coder", "poet"], policy, seed=3, **settings), 0.0
    for number in range(rounds):
        text, code = request(rng)
        decision = router.decide(Task(str(number), text=text))
        reward = float((decision.agent == "coder") == code)
        router.observe(decision.id, Outcome.completed(reward))
        total += reward * (number >= rounds // 2)
    return total / (rounds / 2)


def test_the_text_alone_tells_tasks_apart():
    assert earned() > 0.85


def test_control_without_an_encoder_a_text_says_nothing():
    assert earned(encoder=None) < 0.65


def test_the_numbers_of_the_text_come_behind_the_features():
    router = Orchestrator(["a", "b"], "linucb")
    made = router.decide(Task(text="How many?", features=(0.25, 0.5)))
    single = np.asarray(HashedWords()("How many?"), dtype=np.float32).astype(float)
    assert made.features == (0.25, 0.5, *single.tolist())
    assert (made.encoder, router.n_features, router.settings.context_width) == ("words@1:64#70", 2, 72)
    with pytest.raises(InvalidInputError, match=r"task\.features: has 1 numbers, this orchestrator expects 2"):
        router.decide(Task(text="How many?", features=(0.25,)))
    unused = Orchestrator(["a", "b"], "linucb", n_features=0)
    assert unused.decide(Task(text="How many?", features=(0.25, 0.5))).features == tuple(single.tolist())


def test_from_the_first_text_on_a_missing_one_counts_as_empty():
    router = Orchestrator(["a", "b"], "linucb")
    assert router.prepare(Task(text="x")).encoder and router.settings.text is None, "preparing changes nothing"
    router.decide(Task(text="x"))
    nothing, empty = router.prepare(Task()), router.prepare(Task(text=""))
    assert nothing.features == empty.features == (0.0,) * 70


def test_without_an_encoder_nothing_changes():
    with_text, without = (Orchestrator(["a", "b"], "linucb", encoder=None, seed=2) for _ in range(2))
    for number in range(20):
        one, two = with_text.decide(Task(str(number), text="hello")), without.decide(Task(str(number)))
        assert one.agent == two.agent and one.features == ()
        for router, made in ((with_text, one), (without, two)):
            router.observe(made.id, Outcome.completed(number % 2))
    assert with_text.fingerprint() == without.fingerprint()


def shout(text):
    """An encoder of a user: two numbers."""
    return [float(text.isupper()), len(text) / 100]


def test_a_callable_is_an_encoder_and_is_named_by_its_version():
    router = Orchestrator(["a", "b"], "linucb", encoder=shout)
    made = router.decide(Task(text="HELLO"))
    assert made.features == (1.0, float(np.float32(0.05))) and made.encoder.endswith("shout#2")


def test_a_saved_callable_is_named_but_not_saved(tmp_path):
    router = Router(["a", "b"], "linucb", encoder=shout)
    first = router.decide(Task(text="HELLO"))
    router.save(tmp_path / "state.json")
    again = Orchestrator.load(tmp_path / "state.json")
    again.observe(first.id, Outcome.completed(1.0))  # learned with the numbers of then
    with pytest.raises(InvalidInputError, match=r"encoder: '.*shout' is a callable and was not saved; pass encoder="):
        again.decide(Task(text="hello"))
    again.decide(Task())  # no text, nothing to encode
    back = Router.load(tmp_path / "state.json", encoder=shout)
    router.observe(first.id, Outcome.completed(1.0))
    back.observe(first.id, Outcome.completed(1.0))
    assert back.decide(Task(text="hello")).agent == router.decide(Task(text="hello")).agent
    assert back.fingerprint() == router.fingerprint()
    other = Orchestrator.load(tmp_path / "state.json", encoder=HashedWords())
    with pytest.raises(InvalidInputError, match=r"encoder: is 'words@1:64', this orchestrator learned with '.*shout'"):
        other.decide(Task(text="hello"))


def test_threads_encode_at_the_same_time():
    """Each waits in the encoder for the other; under the router's lock they would wait for ever."""
    both = Barrier(2, timeout=60)

    def slow(text):
        both.wait()
        return [float(len(text))]

    router = Router({"a": lambda task: task.text, "b": lambda task: task.text}, "linucb", encoder=slow)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(router.call, [Task(text="one"), Task(text="three")]))
    assert {each.answer for each in found} == {"one", "three"}, "agents get the text"
    assert {each.decision.features for each in found} == {(3.0,), (5.0,)}


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ("word2vec", r"encoder: is 'word2vec'; pass one of builtin, wordllama, a callable, or None"),
        (lambda text: [], r"encoder: gave shape \(0,\)"),
        (lambda text: [[1.0]], r"encoder: gave shape \(1, 1\); return one list of numbers for one text"),
        (lambda text: [float("nan")], "encoder: gave a number that is not finite"),
        (lambda text: ["a"], "encoder: failed"),
        (lambda text: [1.0] * len(text), "encoder: gave 4 numbers, 3 for the first text"),
    ],
)
def test_an_encoder_that_does_not_fit_is_refused(encoder, message):
    def decide_twice():
        router = Orchestrator(["a", "b"], "linucb", encoder=encoder)
        router.decide(Task(text="abc"))
        router.decide(Task(text="abcd"))

    with pytest.raises(InvalidInputError, match=message):
        decide_twice()


def test_a_text_of_another_type_is_refused():
    with pytest.raises(InvalidInputError, match=r"task\.text: is b'abc'; pass a text"):
        Orchestrator(["a", "b"]).decide(Task(text=b"abc"))


def scribe_of_texts(rounds=40, **settings):
    router = Orchestrator(["coder", "poet"], "linucb", seed=5, **settings)
    scribe, rng, open_ = Scribe(MemoryLog(), router), generator("texts", 2), []
    for number in range(rounds):
        text, code = request(rng)
        task = router.encoded(Task(f"t{number}", text=text if number % 5 != 1 else None))
        made = scribe.ledger.router.prepare(task, decision_id=f"d{number}")
        scribe.put(record_decision(made, record_task(task)), f"d{number}", made)
        open_.append((f"d{number}", float((made.agent == "coder") == code)))
        if len(open_) > 3:
            scribe.feedback(*open_.pop(int(rng.integers(3))))
    scribe.log.commit()
    return scribe


@pytest.mark.parametrize("encoder", ["builtin", shout])
def test_a_log_keeps_the_numbers_and_the_version_and_never_the_text(encoder):
    scribe = scribe_of_texts(encoder=encoder)
    bodies = b"".join(row.body for row in scribe.log.read()) + zlib.decompress(scribe.ledger.snapshot().body)
    assert b"ceiling" not in bodies and b"sorted" not in bodies
    events = [event for row in scribe.log.read() if isinstance(event := row.event(), DecisionMade)]
    width = 2 if encoder is shout else 70
    assert {event.encoder for event in events} == {str(scribe.ledger.router.settings.text)}
    assert {(event.feature_type, len(event.features)) for event in events} == {("<f4", 4 * width)}


@pytest.mark.parametrize("encoder", ["builtin", shout])
def test_a_fold_and_a_replay_need_no_encoder(encoder, monkeypatch):
    scribe = scribe_of_texts(encoder=encoder)
    monkeypatch.setattr("bot_orch.encoders._named", lambda name: pytest.fail("a text was encoded"))
    found = fold(scribe.log)
    assert found.fingerprint() == scribe.ledger.fingerprint()
    checked = replay(scribe.log)
    assert checked.ok and checked.derived == 40


def test_other_policies_are_evaluated_on_the_numbers_of_a_log():
    rounds = collect(scribe_of_texts(120).log)
    router = shadow(rounds, "lints")
    followed = follow(rounds, router)
    assert followed.learned > 0 and router.settings.context_width == 70
    plain = Orchestrator(["coder", "poet"], "linucb", encoder=None)  # to it they are features like others
    assert plain.decide(rounds.tasks[0]).encoder == "" and plain.n_features == 70


def test_numbers_of_another_encoder_are_refused():
    router = Orchestrator(["a", "b"], "linucb")
    router.decide(Task(text="x"))
    with pytest.raises(InvalidInputError, match=r"task\.encoded: is 'other@1#70', this orchestrator learned with"):
        router.decide(Task(features=(0.0,) * 70, encoded="other@1#70"))
    with pytest.raises(InvalidInputError, match=r"task\.encoded: is 'nonsense'"):
        Orchestrator(["a", "b"]).decide(Task(features=(0.0,) * 70, encoded="nonsense"))


def test_a_change_of_encoder_keeps_what_is_pending():
    """Before, an outcome that came after a change of ``n_features`` failed, as the features were of another length."""
    router = Orchestrator(["a", "b"], "linucb", n_features=0)
    old = router.decide(Task(text="x"))
    everyone = router.decide(Task(text="y"))
    settings = Settings(make_policy("linucb"), n_features=0, encoder=HashedWords(8))
    router.reconfigure(settings, router.members, keep_learned=False)
    assert router.settings.context_width == 14
    before = router._state.parts["policy"]
    before = {name: values.copy() for name, values in before.items()}
    router.observe(old.id, Outcome.completed(1.0))
    router.observe_all(everyone.id, {"a": 1.0, "b": 0.0})
    assert all(np.array_equal(values, before[name]) for name, values in router._state.parts["policy"].items())
    assert len(router.decide(Task(text="x")).features) == 14 and len(router.pending) == 1


def test_settings_that_leave_it_open_keep_the_encoder_in_use():
    router = Orchestrator(["a", "b"], "linucb", seed=1)
    router.decide(Task(text="x", features=(1.0,)))
    wanted = Settings(make_policy("linucb"), n_features=None, seed=1, encoder="builtin", floor=0.1)
    router.reconfigure(wanted, router.members)
    assert str(router.settings.text) == "words@1:64#70" and router.n_features == 1


def test_settings_survive_json():
    for encoder in (None, "builtin", AbsentEncoder("my@1")):
        settings = Settings(make_policy("ucb1"), encoder=encoder)
        assert Settings.from_spec(settings.spec()) == settings
    assert "encoder" not in Settings(make_policy("ucb1")).spec(), "documents of earlier builds stay the same"


def test_static_embeddings_need_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(MissingExtraError, match="text"):
        ENCODERS["wordllama"]()


def test_static_embeddings_are_read_from_the_installed_package(monkeypatch, tmp_path):
    asked = {}

    class Model:
        def embed(self, texts, norm):
            return np.full((len(texts), 64), 0.125, dtype=np.float32)

    def load(**options):
        asked.update(options)
        return Model()

    package = SimpleNamespace(__file__=str(tmp_path / "__init__.py"), WordLlama=SimpleNamespace(load=load))
    monkeypatch.setitem(sys.modules, "wordllama", package)
    monkeypatch.setattr("bot_orch.encoders.wordllama.installed", lambda name: "1.2")
    encoder = ENCODERS["wordllama"]()
    assert asked == {"trunc_dim": 64, "cache_dir": tmp_path, "disable_download": True}
    assert encoder("hello") == (0.125,) * 64 and (encoder.version, encoder.width) == ("wordllama@1.2:64", 64)
