"""Infrastructure of experiments: units of work, engines, tables, figures, the report."""
