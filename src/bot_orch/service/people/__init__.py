"""Pages for the people who answer tickets: ``/queue``."""
