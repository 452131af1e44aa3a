"""Your application: chats through the gateway, a thumb for each answer. python examples/hour/chats.py [BASE_URL [N]]"""

import collections
import sys

import openai

PROMPTS = (
    "hello there, how are you today",
    "write a function that reverses a list",
    "good morning to you all",
    "def add(a, b): fix this",
)

URL = "http://127.0.0.1:8080"


def run(base_url: str, number: int = 200) -> list[tuple[str, str]]:
    """Kind and agent of each chat."""
    client, taken = openai.OpenAI(base_url=f"{base_url}/v1", api_key="unused"), []
    for turn in range(number):
        prompt = PROMPTS[turn % len(PROMPTS)]
        answer = client.chat.completions.with_raw_response.create(
            model="auto", messages=[{"role": "user", "content": prompt}]
        )
        completion = answer.parse()
        good = completion.choices[0].message.content == "good answer"
        thumb = {"decision_id": answer.headers["x-bot-orch-decision-id"], "reward": float(good)}
        client.post("/feedback", body=thumb, cast_to=object)
        taken.append(
            ("program" if "function" in prompt or "def " in prompt else "greeting", answer.headers["x-bot-orch-agent"])
        )
    client.close()
    return taken


if __name__ == "__main__":
    taken = run(sys.argv[1] if sys.argv[1:] else URL, number=int(sys.argv[2]) if sys.argv[2:] else 200)
    for kind in ("greeting", "program"):
        late = collections.Counter(agent for each, agent in taken[len(taken) // 2 :] if each == kind)
        print(f"{kind}, second half:", dict(late.most_common()))
