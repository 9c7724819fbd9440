"""The only users of NVML and psutil. NVML is asked in a process of its own: a ctypes call cannot be given a deadline."""
