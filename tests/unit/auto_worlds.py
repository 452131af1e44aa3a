"""Small worlds in which auto must earn something; played by tests and, with a part broken, by controls."""

import random

import numpy as np

from bot_orch import Agent, Objective, Orchestrator, Outcome, Task

WORDS = {
    "code": "python function bug stacktrace compile refactor class loop async unit test exception import module",
    "math": "integral prove theorem matrix probability equation derivative solve prime geometry sum limit",
    "poem": "rhyme sonnet poem haiku verse moon love autumn stanza metaphor lyric ballad",
    "support": "refund invoice order delivery password account cancel shipping late broken subscription",
    "legal": "contract clause liability gdpr court statute warranty breach tenant lease indemnity",
    "translate": "translate french german spanish sentence phrase english japanese idiom grammar",
}
QUALITY = {
    "code": [0.35, 0.55, 0.90, 0.75],
    "math": [0.25, 0.45, 0.55, 0.90],
    "poem": [0.60, 0.85, 0.50, 0.70],
    "support": [0.85, 0.80, 0.75, 0.80],
    "legal": [0.30, 0.50, 0.60, 0.85],
    "translate": [0.80, 0.90, 0.70, 0.85],
}
FILL = "please help me with this i need a short answer about the following for my project thanks and also explain why"
NAMES = ["tiny", "writer", "coder", "giant"]


def topics(seed, text, rounds=2000):
    """Expected reward per task where the topic tells who is good; ``text`` is "own", "permuted" or None."""
    rng, router, got = random.Random(seed), Orchestrator(NAMES, seed=seed), 0.0  # noqa: S311
    tasks = []
    for _ in range(rounds):
        kind = rng.choice(list(QUALITY))
        words = rng.choices(WORDS[kind].split(), k=4) + rng.choices(FILL.split(), k=10)
        rng.shuffle(words)
        tasks.append((kind, " ".join(words), rng.random()))
    texts = [each[1] for each in tasks]
    if text == "permuted":
        rng.shuffle(texts)
    for number, (kind, _, u) in enumerate(tasks):
        decision = router.decide(Task(str(number), text=texts[number] if text else None))
        mean = QUALITY[kind][NAMES.index(decision.agent)]
        router.observe(decision.id, Outcome.completed(float(u < mean)))
        got += mean
    return got / rounds


def mean_of_topics(text, seeds=(0, 1, 2)):
    return sum(topics(seed, text) for seed in seeds) / len(seeds)


def check_words_earn():
    gain = mean_of_topics("own") - mean_of_topics(None)
    assert gain >= 0.02, f"texts earn {gain:.4f} more"


def check_permuted_words_cost_little():
    loss = mean_of_topics(None) - mean_of_topics("permuted")
    assert loss <= 0.015, f"texts of other tasks cost {loss:.4f}"


def found_after(seed, policy="auto", change=2000, rounds=400):
    """Rounds until an agent that improved while ignored gets most decisions."""
    rng, router, recent = random.Random(seed), Orchestrator(["old", "new"], policy, seed=seed), []  # noqa: S311
    for number in range(change + rounds):
        decision = router.decide(Task(str(number)))
        mean = {"old": 0.8, "new": 0.95 if number >= change else 0.5}[decision.agent]
        router.observe(decision.id, Outcome.completed(float(rng.random() < mean)))
        recent = [*recent[-19:], decision.agent]
        if number >= change + 20 and recent.count("new") > 14:
            return number - change
    return rounds


def check_improvement_is_found(policy="auto"):
    took = [found_after(seed, policy) for seed in range(5)]
    assert sum(each <= 300 for each in took) >= 4, f"found after {took} rounds"


def share_of_rival(seed, rounds=2000, others=10):
    """Share of the decisions that the leader does not get which go to the only rival, of ``others`` besides."""
    rng, asked = random.Random(seed), []  # noqa: S311
    names = ["old", "rival", *(f"bad{i}" for i in range(others))]
    router = Orchestrator(names, seed=seed, floor=0.1)
    for number in range(rounds):
        decision = router.decide(Task(str(number)))
        mean = {"old": 0.9, "rival": 0.75}.get(decision.agent, 0.1)
        router.observe(decision.id, Outcome.completed(float(rng.random() < mean)))
        asked += [decision.agent] if number >= 200 else []
    return asked.count("rival") / max(len(asked) - asked.count("old"), 1)


def check_doubt_looks_at_rivals():
    shares = [share_of_rival(seed) for seed in range(3)]
    assert min(shares) > 0.35, f"the rival gets {min(shares):.2f} of what the leader leaves"


def share_of_better(kind, seed, floor, rounds=1000):
    """Share of the better of two agents without features, where one outcome may mislead.

    "unlucky": the better one's first outcome is 0. "risky": the better one earns .87 and fails on 15 % of the tasks.
    """
    rng = np.random.default_rng(seed)
    if kind == "unlucky":
        rewards = rng.normal((0.55, 0.62), (0.06, 0.12), (rounds, 2)).clip(0.0, 1.0)
    else:
        rewards = np.stack([rng.normal(0.69, 0.02, rounds), 0.87 * (rng.random(rounds) > 0.15)], axis=1)
    router, asked = Orchestrator(["calm", "better"], seed=seed, floor=floor), 0
    for row in rewards:
        decision = router.decide(Task())
        better = decision.agent == "better"
        reward = 0.0 if better and asked == 0 and kind == "unlucky" else float(row[int(better)])
        router.observe(decision.id, Outcome.completed(reward))
        asked += better
    return asked / rounds


def check_a_bad_start_does_not_lock_out(seeds=5):
    for kind, least in (("unlucky", 0.85), ("risky", 0.75)):
        for floor in (0.02, 0.0):
            shares = [share_of_better(kind, seed, floor) for seed in range(seeds)]
            assert min(shares) > least, f"{kind}, floor {floor}: the better agent gets {min(shares):.2f}"


CHATS = {
    "greeting": ("hello {}", "good morning {}, how are you today", "hi {}, how are you this week"),
    "program": ("write a function that sorts a {}", "write a function that prints a {}", "fix this function on a {}"),
}
NOUNS = ["list", "string", "tree", "table", "file", "queue", "graph", "anna", "bob", "carol", "dave", "eve", "frank"]
SPECIALISTS = {"small": (0.0005, "greeting"), "code": (0.002, "program"), "large": (0.015, "greeting program")}


def loss_to_specialists(seed, rounds=400):
    """Mean net reward lost in the last quarter, where a dear agent is always right and cheap ones on one kind each."""
    rng, lost = random.Random(seed), []  # noqa: S311
    agents = [Agent(name, price=usd) for name, (usd, _) in SPECIALISTS.items()]
    router = Orchestrator(agents, seed=seed, objective=Objective(usd=20.0), encoder="builtin")
    for _ in range(rounds):
        kind = rng.choice(list(CHATS))
        decision = router.decide(Task(text=rng.choice(CHATS[kind]).format(rng.choice(NOUNS))))
        net = {name: float(kind in knows) - 20.0 * usd for name, (usd, knows) in SPECIALISTS.items()}
        router.observe(decision.id, Outcome.completed(float(kind in SPECIALISTS[decision.agent][1])))
        lost.append(max(net.values()) - net[decision.agent])
    return sum(lost[-rounds // 4 :]) / (rounds // 4)


def check_safe_agent_is_left(seeds=16):
    lost = [loss_to_specialists(seed) for seed in range(seeds)]
    assert sum(lost) / seeds < 0.035, f"a dear agent that is always right is kept: {lost}"


def check_doubt_of_others_stays():
    """Three hundred right answers of one agent say nothing of another one that was wrong twice and right twice."""
    router, bonus = Orchestrator(["small", "large"], seed=1, encoder="builtin"), []
    for number in range(320):
        agent = "small" if number in (2, 5, 8, 11) else "large"
        decision = router.decide(Task(text=f"write a function {NOUNS[number % len(NOUNS)]}"), [agent])
        router.observe(decision.id, Outcome.completed(float(agent == "large" or number > 6)))
        if number in (19, 319):
            bonus.append(router.decide(Task(text="write a function")).terms.exploration[0])
    assert bonus[1] > 0.8 * bonus[0], f"the bonus of an agent seldom asked fell from {bonus[0]:.3f} to {bonus[1]:.3f}"
