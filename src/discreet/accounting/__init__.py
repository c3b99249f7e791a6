"""Arithmetic without rows or noise: conversions, subsampling, profiles, composition."""
