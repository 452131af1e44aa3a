"""Tasks that may go to a person, and the person. python examples/hour/tickets.py [BASE_URL [N]]"""

import sys
import time

from bot_orch.integrations.client import Client

URL = "http://127.0.0.1:8080"


def run(base_url: str, number: int = 60) -> float:
    """The share of the tasks that the person got; every answer of the person is right."""
    with Client(base_url) as client:
        asked = []
        for turn in range(number):
            task = client.do({"id": f"ticket-{turn}", "kind": "ticket", "text": "a hard question"}, background=True)
            asked.append(finished(client, task.id))
    return sum(agent == "person" for agent in asked) / number


def finished(client: Client, task_id: str) -> str:
    """Wait for a task; meanwhile answer what is in the queue, and rate what came back."""
    while (task := client.task(task_id)).status == "running":
        for ticket in client.queue():
            client.answer(ticket["id"], "good answer")
        time.sleep(0.02)
    if task.decision_id:
        client.observe(task.decision_id, reward=float(task.output == "good answer"))
    return task.agent


if __name__ == "__main__":
    share = run(sys.argv[1] if sys.argv[1:] else URL, number=int(sys.argv[2]) if sys.argv[2:] else 60)
    print(f"the person got {share:.0%} of the tasks")
