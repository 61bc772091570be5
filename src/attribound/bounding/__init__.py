"""Bounds on how far attributions can move: a room for each claim, one entry for all."""
