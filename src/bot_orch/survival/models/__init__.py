"""One module per survival model."""
