"""trainmon: a live monitor for model training that lives in the terminal.

Importing this package loads the engine's vocabulary only, never the screen.
"""

__version__ = "0.1.0"
