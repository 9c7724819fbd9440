"""Configuration: what it may say (`model`), where it comes from (`load`), and where state is kept (`state`)."""
