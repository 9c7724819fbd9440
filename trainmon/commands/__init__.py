"""The commands behind `trainmon.cli`, one module each; imported only when they are asked for."""
