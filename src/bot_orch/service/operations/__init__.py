"""Operations: metrics, limits per token, access log, traces."""
