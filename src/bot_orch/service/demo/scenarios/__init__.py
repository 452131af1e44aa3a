"""Scenarios of the demonstration, one module each; ``SCENARIO`` is what :mod:`bot_orch.service.demo.play` plays."""
