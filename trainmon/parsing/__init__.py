"""Bytes of logs -> records. Pure: no files, no clock, no network."""
