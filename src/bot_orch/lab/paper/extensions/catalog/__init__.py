"""Extensions that ``bot-orch reproduce`` lists."""
