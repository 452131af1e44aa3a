"""The ledger as an experiment."""
