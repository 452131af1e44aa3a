"""Lock-in of plug-in distances."""
