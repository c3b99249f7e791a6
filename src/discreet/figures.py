"""A figure that notebooks display by themselves, without pyplot and its backends."""

from __future__ import annotations

from io import BytesIO

from matplotlib import figure


class Figure(figure.Figure):
    """A figure of matplotlib; a notebook that evaluates it shows it as an image."""

    def _repr_png_(self) -> bytes:
        """Return the image, as notebooks ask for it."""
        image = BytesIO()
        self.savefig(image, format="png")
        return image.getvalue()
