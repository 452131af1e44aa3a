"""Online fits of survival models."""
