"""Import logs of other routers for ``evaluate``, ``export`` and warm starts."""
