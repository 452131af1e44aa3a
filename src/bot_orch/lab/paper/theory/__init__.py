"""The theorem, item by item."""
