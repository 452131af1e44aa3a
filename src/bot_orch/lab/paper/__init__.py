"""The paper's experiments, one folder each."""
