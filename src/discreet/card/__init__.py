"""The privacy card: the guarantee of a model, for a reader who has to decide about it.

`card` collects the contents as plain data; `text`, `markdown` and `html` write them. `documents`
has a record for the public registry of deployments and a self-assessment.
"""

from discreet.card.contents import Card, card
from discreet.card.descriptions import listed, shown
from discreet.card.writers import html, markdown, text

__all__ = ["Card", "card", "html", "listed", "markdown", "shown", "text"]
