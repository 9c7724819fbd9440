"""The only users of NVML and psutil. NVML runs in a process of its own: its calls cannot be given a deadline."""
