"""Matrices from tables with named columns: CSV, Parquet and DataFrames, one row per task or per task and agent."""
