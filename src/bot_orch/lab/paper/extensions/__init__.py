"""What the paper's setting allows or its outlook names, and its experiments do not run."""
