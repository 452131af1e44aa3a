"""One module per kind of agent."""
