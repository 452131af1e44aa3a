"""How rows are stored in few bytes, and read back bit for bit."""
