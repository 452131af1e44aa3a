"""Formulas as one would type them in a plain text, turned into MathML: browsers draw it without a script or a font."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape

__all__ = ["FUNCTIONS", "GREEK", "mathml"]

GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "epsilon": "ε",
    "eta": "η",
    "theta": "θ",
    "lambda": "λ",
    "mu": "μ",
    "nu": "ν",
    "pi": "π",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
    "phi": "φ",
    "psi": "ψ",
    "omega": "ω",
    "Delta": "Δ",
}
FUNCTIONS = ("argmax", "cosh", "exp", "ln", "log", "max", "min", "sd", "softmax", "sup", "var")
_SIGNS = {"<=": "≤", ">=": "≥", "->": "→", "!=": "≠", "~": "∼", "*": "·", "-": "−", "'": "′", "sum": "∑"}
_PIECE = re.compile(r"\d+(?:[.,]\d+)*|[A-Za-z]+|<=|>=|->|!=|\S")
_SLASH = re.compile(r"\^(-\w+/\w+|[123]/[234])(?!\w)")  # t^-1/2 is a power of t, not half of one; x^2/8 is an eighth
_THIN, _GAP = '<mspace width="0.17em"></mspace>', '<mspace width="0.3em"></mspace>'


def mathml(formula: str) -> str:
    """A formula as MathML.

    Examples
    --------
    >>> mathml("x_t^2")
    '<math><msubsup><mi>x</mi><mi>t</mi><mn>2</mn></msubsup></math>'
    """
    pieces = _PIECE.findall(_SLASH.sub(r"^(\1)", formula))
    return f"<math>{_Reader(pieces).row()}</math>"


@dataclass(slots=True)
class _Reader:
    """Reads pieces from left to right; a row ends at a closing bracket."""

    pieces: list[str]
    at: int = field(default=0)

    def next(self) -> str:
        """The piece that comes next; empty at the end."""
        return self.pieces[self.at] if self.at < len(self.pieces) else ""

    def take(self) -> str:
        """The next piece, and step behind it."""
        piece = self.next()
        self.at += 1
        return piece

    def row(self, end: str = "") -> str:
        """Everything up to ``end``, and step behind it."""
        parts: list[str] = []
        while self.next() and self.next() != end:
            part = self.scripted()
            if parts and part.startswith("<mn>") and not parts[-1].endswith("</mo>"):
                parts.append(_GAP)
            parts.append(part)
        self.at += 1
        return "".join(parts)

    def scripted(self) -> str:
        """An atom with its index, power or star."""
        base = self.atom()
        if self.next() == "*" and (self.pieces[self.at + 1 :] or ["="])[0] in ("=", ",", ")"):
            self.at += 1
            return f"<msup>{base}<mo>*</mo></msup>"
        scripts = {}
        while self.next() in ("_", "^"):
            sign = self.take()
            scripts[sign] = self.group()
        match scripts:
            case {"_": low, "^": high}:
                return f"<msubsup>{base}{low}{high}</msubsup>"
            case {"_": low}:
                return f"<msub>{base}{low}</msub>"
            case {"^": high}:
                return f"<msup>{base}{high}</msup>"
        return base

    def group(self) -> str:
        """An atom, or all of a bracket without the bracket; a sign may stand before a number."""
        if self.next() == "(":
            self.at += 1
            return f"<mrow>{self.row(')')}</mrow>"
        if self.next() == "-":
            return f"<mrow>{self.atom()}{self.atom()}</mrow>"
        return self.atom()

    def atom(self) -> str:
        """A symbol, a number, a root, or a bracket."""
        match self.take():
            case "(":
                return f"<mrow><mo>(</mo>{self.row(')')}<mo>)</mo></mrow>"
            case "sqrt":
                return f"<msqrt>{self.group()}</msqrt>"
            case "rhat":
                return "<mover><mi>r</mi><mo>^</mo></mover>"
            case piece:
                return _symbol(piece)


def _symbol(piece: str) -> str:
    if piece in GREEK:
        return f"<mi>{GREEK[piece]}</mi>"
    if piece in FUNCTIONS:
        return f'<mrow>{_THIN}<mi mathvariant="normal">{piece}</mi><mo>&#x2061;</mo></mrow>'
    if piece in _SIGNS:
        return f"<mo>{_SIGNS[piece]}</mo>"
    if piece[:1].isdigit():
        return f"<mn>{piece}</mn>"
    if piece.isalpha():
        return f"<mi>{piece}</mi>" if len(piece) == 1 else f"<mtext>{piece}</mtext>"
    return f"<mo>{escape(piece)}</mo>"
