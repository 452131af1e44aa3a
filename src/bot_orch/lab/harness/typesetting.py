"""Formulas in the sentences of the report.

Sentences are written in plain text, formulas in them as one would type them: ``sigma sqrt(2 ln 2)``,
``E softmax(R - lambda W)``, ``eta_t ~ t^-1/2``. :func:`typeset` finds them by what only a formula has, a Greek letter
spelled out, an index, a power or a root, and takes in what stands beside it: numbers, signs, single letters,
functions. ``$...$`` marks a formula that has none of these.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape, unescape

from bot_orch.lab.harness.mathml import FUNCTIONS, GREEK, mathml

__all__ = ["lettered", "plain", "typeset"]

_MARKED = re.compile(r"\$([^$]+)\$")
#: Tags and what stands in code are left alone; text between them is read.
_TAGS = re.compile(r"(<(code|pre|math|style|script)\b.*?</\2>|<[^<>]*>)", re.DOTALL)
#: Letters that are never words; gamma, beta and delta name distributions and causes too.
_SURE = "lambda|eta|alpha|theta|sigma|phi|psi|nu|mu|Delta|rhat"
_LETTER = rf"(?:{'|'.join(sorted(GREEK, key=len, reverse=True))}|rhat|[A-Za-z])(?![A-Za-z])"
_INDEX = r"_(?:\(\w[^()]*\)|\w{1,2}(?!\w))"
_POWER = r"\^(?:\([^()]*\)|-?\w+(?:/\w+)?)"
_NAME = r"[A-Za-z]+(?:[-+@.'’][A-Za-z0-9]{2,})+|\w+_\w{3,}|\d+(?:\.\d+)?\s?%|(?<=\s)\(\d[\d.]*\)"
_NUMBERED = r"\b(?:[Ii]tems?|Algorithms?|Theorem|Lemma|Tables?|Figures?|agents?|rounds?)\s\d+(?![\w.])"
#: A ``strong`` piece makes a formula, ``weak`` ones beside it join it. The first kind that matches counts.
_STRONG = (
    rf"{_LETTER}{_INDEX}(?:{_POWER})?'?|(?:{_LETTER}|\)){_POWER}'?|\bsqrt(?=[\s(])|\b(?:max|min|sup|argmax){_INDEX}|\bcosh{_POWER}"
    rf"|(?:{_SURE})(?:\*(?=[\s,.;:)]|$)|'{{0,2}}(?![\w*]|-[A-Za-z]{{2}}))"
)
_WEAK = (
    rf"(?:{'|'.join(sorted({*FUNCTIONS, *GREEK}))})(?![\w-])|[b-zB-HJ-Z](?![\w'’]|-[A-Za-z]{{2}})"
    r"|(?<=[-+*/(=])a(?=[)\s])|\d+(?:[.,]\d+)*(?![\w%])|<=|>=|->|!=|[-+*/=<>~|()≤≥≠→]"
)
_PIECES = re.compile(
    rf"(?P<space>\s+)|(?P<name>{_NUMBERED}|{_NAME})|(?P<strong>{_STRONG})|(?P<weak>{_WEAK})|(?P<comma>,(?=\s))|(?P<other>\w+|.)",
    re.DOTALL,
)
_NAMED = re.compile(rf"(?<![\w\\-])({_SURE.removesuffix('|rhat')})(?![\w-])")
_INDEXED = re.compile(rf"(?<![\w$-])({'|'.join(GREEK)}|[A-Za-z])_([a-zA-Z0-9]{{1,2}})(?!\w)")
_Run = Sequence[tuple[str, str]]


def typeset(html: str) -> str:
    """The same HTML with its formulas as MathML.

    Examples
    --------
    >>> typeset("at lambda = 3, <code>lambda</code>")
    'at <math><mi>λ</mi><mo>=</mo><mn>3</mn></math>, <code>lambda</code>'
    """
    parts, at = [], 0
    for tag in _TAGS.finditer(html):
        parts += [_text(html[at : tag.start()]), tag[0]]
        at = tag.end()
    return "".join([*parts, _text(html[at:])])


def plain(text: str) -> str:
    """The text without the marks of formulas, for places that hold no markup."""
    return _MARKED.sub(r"\1", text)


def lettered(text: str) -> str:
    """The text of a label in a figure: Greek letters instead of their names, a root sign, indices set low.

    Examples
    --------
    >>> lettered("lambda (w_j - w_i) = sigma sqrt(2 ln 2)")
    'λ ($w_{j}$ - $w_{i}$) = σ √(2 ln 2)'
    """
    if "$" in text:
        return text
    indexed = _INDEXED.sub(lambda found: f"${_letter(found[1], tex=True)}_{{{found[2]}}}$", text)
    named = _NAMED.sub(lambda found: _letter(found[1]), indexed)
    return re.sub(r"\bsqrt(?=[\s(])", "√", named)


def _letter(name: str, *, tex: bool = False) -> str:
    return f"\\{name}" if tex and name in GREEK else GREEK.get(name, name)


def _text(html: str) -> str:
    """Text between two tags."""
    pieces = _MARKED.split(unescape(html).replace("+-", "±"))
    pieces[::2] = [_prose(piece) for piece in pieces[::2]]
    pieces[1::2] = [mathml(piece) for piece in pieces[1::2]]
    return "".join(pieces)


def _prose(text: str) -> str:
    """Formulas that nobody marked: runs of pieces with a strong one among them."""
    done: list[str] = []
    run: list[tuple[str, str]] = []
    for found in _PIECES.finditer(text):
        kind = found.lastgroup or "other"
        if kind in ("strong", "weak", "space") or (kind == "comma" and _open(run) > 0):
            run.append((kind, found[0]))
        else:
            done += [_finish(run), escape(found[0], quote=False)]
            run = []
    return "".join([*done, _finish(run)])


def _finish(run: _Run) -> str:
    """A run as text, with what is a formula in it drawn: brackets balance, and no sign stands at an end."""
    start, end = 0, len(run)
    while end > start and _dangling(run[start:end], -1):
        end -= 1
    while start < end and _dangling(run[start:end], 0):
        start += 1
    if (split := _unmatched(run[start:end])) is not None:
        at = start + split
        return _finish(run[:at]) + run[at][1] + _finish(run[at + 1 :])
    before, formula, after = ("".join(text for _, text in part) for part in (run[:start], run[start:end], run[end:]))
    strong = any(kind == "strong" for kind, _ in run[start:end])
    drawn = mathml(formula) if strong else escape(formula, quote=False)
    return f"{escape(before, quote=False)}{drawn}{escape(after, quote=False)}"


def _dangling(run: _Run, at: int) -> bool:
    """Whether the piece at this end does not belong to a formula."""
    kind, text = run[at]
    if text in ("(", ")"):
        return (text == "(") == (_open(run) > 0) and _open(run) != 0
    ends = ("*", "/", "=", "<", ">", "~", ",", "<=", ">=", "->", "!=", *(("+", "-") if at else ()))
    return kind == "space" or text in ends


def _unmatched(run: _Run) -> int | None:
    """Where a bracket stands whose partner is prose."""
    waiting: list[int] = []
    for at, (_, text) in enumerate(run):
        if text == "(":
            waiting.append(at)
        elif text.startswith(")"):
            if not waiting:
                return at
            waiting.pop()
    return waiting[-1] if waiting else None


def _open(run: _Run) -> int:
    return sum(text.count("(") - text.count(")") for _, text in run)
