"""The configuration that several processes share: proposed, prepared by all, adopted together."""
