"""Pure, streaming diagnosis: one detector a file, run state, roles of errors."""
