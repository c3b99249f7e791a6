"""Attacks on single answers: of the curator, of a preparation's steps, of drafts and of scores."""

from discreet.audit.answers.mechanisms import mechanism_attacks

__all__ = ["mechanism_attacks"]
