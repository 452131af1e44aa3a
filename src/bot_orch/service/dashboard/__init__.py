"""The dashboard of operators: ``/`` and ``/decisions/{id}``."""
