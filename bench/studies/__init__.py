"""Measurements behind single tables of the documentation; each module says what it measures.

They need a checkout. Run them from its top folder: ``python -m bench.studies.NAME``.
"""
