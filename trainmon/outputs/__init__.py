"""Records and results in the forms that other programs read."""
