"""Joins the layers: events of the readers in, immutable pictures of the run (`trainmon.snapshot`) out."""
