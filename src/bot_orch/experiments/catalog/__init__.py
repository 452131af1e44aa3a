"""The catalog: every module here with a constant ``EXPERIMENT`` is an experiment."""
