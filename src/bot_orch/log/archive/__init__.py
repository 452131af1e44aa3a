"""The beginning of a log in files: old events are moved to an archive, and read together with the rest."""
