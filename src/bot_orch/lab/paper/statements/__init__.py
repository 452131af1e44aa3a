"""The claims ledger: every empirical sentence of the paper, judged on its own tables and on our runs."""
