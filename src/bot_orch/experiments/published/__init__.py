"""The numbers the paper prints, one CSV file per group of tables."""
