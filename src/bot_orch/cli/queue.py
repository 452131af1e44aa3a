"""``bot-orch queue``: answer escalated tasks."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any
from urllib.parse import quote

from bot_orch.cli._service import DEFAULT_URL, ServiceAddress
from bot_orch.cli._terminal import plain
from bot_orch.errors import InvalidInputError

DESCRIPTION = """\
List, claim and answer tasks that wait for a person. A claim is a lease: when it expires the task returns to the queue.
The token is read from BOT_ORCH_TOKEN (scope queue); a service without tokens needs none."""
EXAMPLES = """\
examples:
  bot-orch queue list
  bot-orch queue claim                      the most urgent
  bot-orch queue answer TICKET "42"
  bot-orch queue answer TICKET --accept 1   the first draft as it is
  bot-orch queue answer TICKET --edit 1 "42, to be precise"
  bot-orch queue answer TICKET --reject "not enough to go on"
  bot-orch queue release TICKET"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--url", default=DEFAULT_URL, help="of the service")
    parser.add_argument("--json", action="store_true", help="print what the service answers")
    also = argparse.ArgumentParser(add_help=False)  # the same options, accepted after the action too
    also.add_argument("--url", default=argparse.SUPPRESS, help="of the service")
    also.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print what the service answers")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="list waiting tasks", parents=[also])
    claim = actions.add_parser("claim", help="claim a task, or the most urgent one", parents=[also])
    claim.add_argument("ticket", nargs="?", metavar="TICKET")
    for name, text in (
        ("show", "show a task in full"),
        ("release", "return a claimed task to the queue"),
        ("skip", "leave a task to others"),
        ("renew", "extend the lease"),
        ("undo", "withdraw an answer"),
    ):
        actions.add_parser(name, help=text, parents=[also]).add_argument("ticket", metavar="TICKET")
    answer = actions.add_parser("answer", help="answer, accept a draft, edit one, or reject", parents=[also])
    answer.add_argument("ticket", metavar="TICKET")
    answer.add_argument("text", nargs="?", default="", metavar="TEXT", help="- reads it from standard input")
    way = answer.add_mutually_exclusive_group()
    way.add_argument("--accept", metavar="N", help="answer with draft N, from 1")
    way.add_argument("--edit", nargs="+", metavar=("N", "TEXT"), help="TEXT is draft N, edited")
    way.add_argument("--reject", metavar="REASON", help="reject the task: it should not be answered")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    action = arguments.action
    if action == "list":
        found = _ask(arguments, "GET", "/v1/queue")
        _print(json.dumps(found, indent=2) if arguments.json else _table(found))
        return 0
    if action == "claim" and arguments.ticket is None:
        found = _ask(arguments, "POST", "/v1/queue/claim", {})
    elif action == "show":
        found = _ask(arguments, "GET", f"/v1/queue/{quote(arguments.ticket, safe='')}")
    else:
        body = _answer_body(arguments) if action == "answer" else {}
        found = _ask(arguments, "POST", f"/v1/queue/{quote(arguments.ticket, safe='')}/{action}", body)
    _print(json.dumps(found, indent=2) if arguments.json else _full(found))
    return 0


def _answer_body(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.reject is not None:
        return {"action": "reject", "reason": arguments.reject}
    if arguments.accept is not None:
        return {"action": "accept", "draft": _draft("--accept", arguments.accept)}
    if arguments.edit is not None:
        number, *words = arguments.edit
        return {"action": "edit", "draft": _draft("--edit", number), "text": _text(" ".join(words) or arguments.text)}
    return {"action": "answer", "text": _text(arguments.text)}


def _draft(option: str, number: str) -> int:
    if not number.isdecimal() or int(number) < 1:
        raise InvalidInputError(option, f"is {number}", "drafts are counted from 1")
    return int(number) - 1


def _text(words: str) -> str:
    return sys.stdin.read() if words == "-" else words


def _ask(arguments: argparse.Namespace, method: str, path: str, body: Any = None) -> Any:
    service = ServiceAddress(arguments.url, option="--url", scope="queue")
    found = service.document(path, body, method=method)
    if not isinstance(found, dict) or "now_us" not in found:
        raise service.unexpected()
    return found


def _table(found: Any) -> str:
    rows = []
    for ticket in found["tickets"]:
        held = "" if not ticket["holder"] else " (yours)" if ticket["mine"] else f" ({ticket['holder']})"
        left_s = max(0, (ticket["deadline_us"] - found["now_us"]) // 1_000_000)
        text = " ".join(ticket["text"].split())
        rows.append(f"{ticket['id']}  {ticket['status']}{held:<10}  {left_s:>6} s left  {plain(text)[:60]}")
    return "\n".join(rows) or "nothing waits for a person"


def _full(ticket: Any) -> str:
    lines = [f"ticket {ticket['id']}: {ticket['status']}", "", plain(ticket["text"]), ""]
    for number, draft in enumerate(ticket["drafts"] or (), 1):
        lines += [f"draft {number} by {plain(draft['agent'])}: {plain(draft['text'])}"]
    if ticket["drafts"] is None:
        lines += ["drafts are hidden (blind mode)"]
    if ticket["lease_until_us"] is not None and ticket["mine"]:
        lines += [f"yours for {max(0, ticket['lease_until_us'] - ticket['now_us']) // 1_000_000} s"]
    if ticket["given"] is not None:
        given = ticket["given"]
        lines += [f"{given['action']} by {given['by']}: {plain(given['text'] or given['reason'])}"]
    return "\n".join(lines)


def _print(text: str) -> None:
    print(text)  # noqa: T201
