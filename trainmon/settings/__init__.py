"""Configuration: what it may say (`model`, `keys`), where it comes from (`load`), and where state is kept (`state`)."""

from trainmon.settings.load import load
from trainmon.settings.model import THEMES, Settings

__all__ = ["THEMES", "Settings", "load"]
