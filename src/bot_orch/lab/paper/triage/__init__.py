"""The triage experiments: settings, published numbers, figures."""
