"""Which incidents are announced, for how long, and when they are over."""
