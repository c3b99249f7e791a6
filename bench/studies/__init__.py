"""Measurements of discreet; each module says how to run it."""
