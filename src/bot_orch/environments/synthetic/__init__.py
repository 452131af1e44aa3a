"""The paper's synthetic environments."""
