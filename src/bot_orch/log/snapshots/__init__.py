"""Snapshots in pieces: a state is cut into parts named by their hashes, and only those that changed are written."""
