"""The host: processors, memory, disks, network, out of /proc and /sys (why not psutil: reading.py)."""
