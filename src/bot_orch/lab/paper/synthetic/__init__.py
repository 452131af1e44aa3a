"""The synthetic experiments: settings, published numbers, figures."""
