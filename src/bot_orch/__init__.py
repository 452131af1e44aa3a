"""BOT-Orch."""
