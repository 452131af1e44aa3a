"""Who may be chosen, and whole rounds."""
