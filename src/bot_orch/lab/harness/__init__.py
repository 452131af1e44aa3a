"""What every experiment needs: units of work, engines, tables, figures, the report."""
