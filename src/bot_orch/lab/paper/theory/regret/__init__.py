"""Item 1 of the theorem: streams it is tried on, regret curves with their bounds, verdicts."""
