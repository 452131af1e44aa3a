"""The gateway: interfaces of models (OpenAI's, Anthropic's) in front of all agents, each with ``model="auto"``."""
