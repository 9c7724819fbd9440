"""The host: processors, memory, disks, network, out of psutil, /proc and /sys."""
