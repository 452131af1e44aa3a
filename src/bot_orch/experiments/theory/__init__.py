"""The paper's theorem, its proposition and its lemmas as runs that end in a verdict."""
