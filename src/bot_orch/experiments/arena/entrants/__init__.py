"""Who may enter the arena. A module here has a constant ``ENTRANTS``; entrants are found by looking."""
