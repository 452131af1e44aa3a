"""Logs of other routers, read into a log that ``evaluate``, ``export`` and a warm start read."""
