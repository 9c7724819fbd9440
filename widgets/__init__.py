"""Instruments that show plain values: drawing in pure functions, state and style in the widget.

They know the vocabulary of `trainmon.snapshot` and nothing of sessions, sources or the app.
"""
