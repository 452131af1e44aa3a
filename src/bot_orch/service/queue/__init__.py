"""The queue of people."""
