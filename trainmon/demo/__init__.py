"""A run that never was: the recording of `trainmon demo`, and the writer that plays it."""
