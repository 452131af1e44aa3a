"""What an operator needs beside answers: metrics, limits per token, alarms, access log, traces."""
