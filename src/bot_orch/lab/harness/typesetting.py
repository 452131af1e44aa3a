"""Formulas in the sentences of the report: Greek letters, indices, powers and roots as HTML.

Sentences are written in plain text, formulas in them as one would type them: ``sigma sqrt(2 ln 2)``, ``eta_t ~
t^-1/2``. ``beta``, ``gamma`` and ``delta`` name distributions and causes too, so only an index or a power makes
letters of them.
"""

from __future__ import annotations

import re

_GREEK = {
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
    "Delta": "Δ",
    "rhat": "r̂",
}
_WORDS = ("alpha", "eta", "theta", "lambda", "mu", "nu", "sigma", "phi", "psi", "Delta", "rhat")
#: Tags and what stands in code are left alone; text between them is read.
_TAGS = re.compile(r"(<(?:code|pre|style|script)\b.*?</(?:code|pre|style|script)>|<[^<>]*>)", re.DOTALL)
_LETTER = rf"(?:{'|'.join(_GREEK)}|max|min|sup|argmax|cosh|[A-Za-z])"
_INDEX = r"_(?P<low>\w{1,2})(?!\w)"
_POWER = r"\^(?P<high>\([^()]*\)|-\w+(?:/\w+)?|[123]/[234](?!\w)|\w+)"  # t^-1/2 is a power, x^2/8 an eighth of one
_SCRIPTS = re.compile(rf"(?:(?<![\w-])(?P<base>{_LETTER})|(?<=\)))(?:{_INDEX})?(?:{_POWER})?")
_NAMED = re.compile(rf"(?<![\w\\-])({'|'.join(_WORDS)})(?![\w]|-[A-Za-z])")
_ROOT = re.compile(r"\bsqrt(?=[\s(])")
_INDEXED = re.compile(rf"(?<![\w-])({'|'.join(_GREEK)}|[A-Za-z])_([a-zA-Z0-9]{{1,2}})(?!\w)")


def typeset(html: str) -> str:
    """The same HTML with Greek letters, indices, powers and roots.

    Examples
    --------
    >>> typeset("at lambda = 3, eta_t ~ t^-1/2, <code>lambda</code>")
    'at λ = 3, η<sub>t</sub> ~ t<sup>−1/2</sup>, <code>lambda</code>'
    """
    pieces = _TAGS.split(html)
    pieces[::2] = [_formulas(text) for text in pieces[::2]]
    return "".join(pieces)


def lettered(text: str) -> str:
    """The text of a label in a figure: Greek letters instead of their names, a root sign, indices set low.

    Examples
    --------
    >>> lettered("lambda (w_j - w_i) = sigma sqrt(2 ln 2)")
    'λ ($w_{j}$ - $w_{i}$) = σ √(2 ln 2)'
    """
    low = _INDEXED.sub(lambda m: "$" + ("\\" if m[1] in _GREEK else "") + f"{m[1]}_{{{m[2]}}}$", text)
    return _ROOT.sub("√", _NAMED.sub(lambda m: _GREEK[m[1]], low))


def _formulas(text: str) -> str:
    marked = _SCRIPTS.sub(_scripted, text.replace("+-", "±"))
    return _ROOT.sub("√", _NAMED.sub(lambda m: _GREEK[m[1]], marked))


def _scripted(found: re.Match[str]) -> str:
    """A letter with its index and power; unchanged without either."""
    base, low, high = found["base"] or "", found["low"], found["high"]
    if not low and not high:
        return found[0]
    shown = _GREEK.get(base, base)
    shown += f"<sub>{_GREEK.get(low, low)}</sub>" if low else ""
    return shown + (f"<sup>{_raised(high)}</sup>" if high else "")


def _raised(power: str) -> str:
    inner = power.removeprefix("(").removesuffix(")") if power.startswith("(") else power
    return _NAMED.sub(lambda m: _GREEK[m[1]], inner.replace("-", "−"))
