"""One module per family of geometries."""
