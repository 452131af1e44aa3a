"""Writing the log: group commit, snapshots, retention."""
