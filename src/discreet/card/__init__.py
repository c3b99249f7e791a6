"""The privacy card: what a model promises, for a person who has to decide about it.

`card` gathers the facts as plain data; `text`, `markdown` and `html` write them down.
"""

from discreet.card.facts import Card, card
from discreet.card.page import html
from discreet.card.plain import markdown, text

__all__ = ["Card", "card", "html", "markdown", "text"]
