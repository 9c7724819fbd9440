"""NVML: a worker process that asks, a watchdog that gives up on it, and what both agree on."""
