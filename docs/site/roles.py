"""For the site's API reference: cross-references of Sphinx in docstrings become plain code."""

import re

import griffe

ROLE = re.compile(r":(?:py:)?(?:attr|class|data|exc|func|meth|mod|obj):`[~!]?([^`]+)`")


class PlainRoles(griffe.Extension):
    """``:class:`~a.B``` reads ```a.B```."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrite the docstring of an object that was found."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
