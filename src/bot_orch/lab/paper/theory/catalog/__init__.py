"""Theory experiments that ``bot-orch reproduce`` lists."""
