"""The arena: policies and peers replayed over matrices of real outcomes."""
