"""Clients that decide, chat, report and read, and record what they asked and were told."""

import asyncio
import contextlib
import random
import time

from recorded import Op, Try
from replicas import ask

GIVEN_UP = (0, 502, 503, 504)  # it may have happened; try elsewhere
TRIES = 40


class Client:
    """Asks one of the replicas at a time; ``keeps_to`` is the one that it never leaves.

    Who keeps to a replica asks without a key and does not repeat: every try is an operation. Others repeat a decision
    under its key, and a report under its id, at the next replica until it is acknowledged.
    """

    def __init__(self, name, history, ports, *, keeps_to=None, pace_s=0.1, timeout_s=1.5):
        self.name, self.history, self.ports, self.keeps_to = name, history, ports, keeps_to
        self.pace_s, self.timeout_s = pace_s, timeout_s
        self.rng = random.Random(f"{history.seed}-{name}")  # noqa: S311
        self.at = keeps_to or 0

    async def run(self, done):
        step = 0
        while not done.is_set():
            step += 1
            await self.one(step, done)
            await asyncio.sleep(self.pace_s * self.rng.uniform(0.5, 1.5))

    async def one(self, step, done):
        task = f"{self.name}-{step}"
        if self.keeps_to is not None and step % 3 == 0:
            await self.chat(done)
            return
        made = self.begin("decide", task=task, key="" if self.keeps_to is not None else f"key-{task}")
        headers = {"idempotency-key": made.key} if made.key else {}
        document = await self.tried(made, "POST", "/v1/decisions", {"task": {"id": task}}, headers=headers, done=done)
        if document is None:
            return
        made.id, made.agent, made.propensity = document["id"], document["agent"], document["propensity"]
        if step % 4 == 0:
            return
        told = self.begin("report", about=made.id, id=f"{made.id}-f")
        body = {"decision_id": made.id, "reward": round(self.rng.random(), 3), "id": told.id}
        reported = await self.tried(told, "POST", "/v1/feedback", body, done=done)
        if reported is not None and step % 2:
            self.at += self.keeps_to is None  # another replica has not heard of it yet, perhaps
            read = self.begin("read", about=made.id)
            document = await self.tried(read, "GET", f"/v1/decisions/{made.id}", done=done)
            read.pending = document is not None and document["pending"]

    async def chat(self, done):
        """A chat, which the replica carries if another one owns the router; and the report of its outcome."""
        made = self.begin("chat")
        body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
        document = await self.tried(made, "POST", "/v1/chat/completions", body, done=done)
        if document is None:
            return
        made.id, made.agent = document["id"].removeprefix("chatcmpl-"), document["model"]
        told = self.begin("report", about=made.id, id=f"{made.id}-f")
        report = {"decision_id": made.id, "reward": round(self.rng.random(), 3), "id": told.id}
        await self.tried(told, "POST", "/v1/feedback", report, done=done)

    def begin(self, kind, **fields):
        op = Op(self.name, kind, time.monotonic(), **fields)
        self.history.ops.append(op)
        return op

    async def tried(self, op, method, path, body=None, *, headers=None, done):
        """The answer, sooner or later; nothing if there was none."""
        for _ in range(1 if self.keeps_to is not None else TRIES):
            replica = self.at % len(self.ports)
            begun, status, document = time.monotonic(), 0, None
            with contextlib.suppress(OSError, TimeoutError, ValueError):
                status, document = await ask(self.ports[replica], method, path, body, headers, self.timeout_s)
            op.ended = time.monotonic()
            op.tries.append(Try(replica, begun, op.ended, status))
            if status in (200, 202):
                op.outcome = "ok"
                return document
            if status not in GIVEN_UP:
                op.outcome, op.detail = "wrong", f"{status} {str(document)[:200]} by replica {replica}"
                return None
            self.at += self.keeps_to is None
            if done.is_set():
                break
            await asyncio.sleep(0.05)
        return None
