"""The laboratory: environments, the harness that runs experiments, the paper, the arena."""
