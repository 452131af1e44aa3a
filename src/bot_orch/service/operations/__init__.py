"""Operations: metrics, limits per token, alarms, access log, traces."""
