"""Environments: data and generators that policies are played on.

``stream``
    Rewards and alignment costs of all agents, drawn beforehand, ``(T, seeds, M)``.
``synthetic``
    The paper's five generators (i.i.d. and drifting) with survival times, as streams.
``triage``
    Human-AI triage on public data, as a stream, with the alignment that a deployed router could know.
``matrix``
    Recorded outcomes of M agents on T tasks: CSV, Parquet, DataFrames and npz files.
``gaming``
    Generated matrices in which some agents game the judge.
``replay``
    Bandit replay of a matrix: a policy sees only the outcome of the agent it chose.
"""
