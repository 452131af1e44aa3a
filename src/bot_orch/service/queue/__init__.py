"""The queue of people: its state, rules and actions, without HTTP."""
