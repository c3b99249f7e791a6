"""``discreet explain``: the privacy card of a model."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from discreet.cli.exits import Exit, Problem
from discreet.cli.options import AsJson, Force, ModelFile, OutputFile, check_output
from discreet.cli.screen import Screen

__all__ = ["explain"]


class Form(StrEnum):
    """How the card is written."""

    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"


_ENDINGS = {".html": Form.HTML, ".htm": Form.HTML, ".md": Form.MARKDOWN, ".txt": Form.TEXT}


def explain(
    model: ModelFile,
    form: Annotated[
        Form | None,
        typer.Option("--format", help="By default as the output's name ends, else text."),
    ] = None,
    output: OutputFile = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Show what a model promises: relation, budget, what is public, conditions, risk in words.

    Example: discreet explain visits.json --output card.html
    """
    from sklearn.pipeline import Pipeline

    from discreet import card, load
    from discreet.files import replacing

    screen = Screen(as_json=as_json)
    check_output(output, force, model)
    if form is None:
        form = Form.TEXT if output is None else _ENDINGS.get(output.suffix.lower())
    if form is None:
        known = ", ".join(_ENDINGS)
        raise Problem(Exit.USAGE, f"{output}: name it {known}, or pass --format.")
    loaded = load(model)
    estimator = loaded[-1] if isinstance(loaded, Pipeline) else loaded
    schema = loaded[0].schema if isinstance(loaded, Pipeline) else None
    told = card.card(estimator.guarantee_, model=estimator, schema=schema, title=model.stem)
    written = {Form.TEXT: card.text, Form.MARKDOWN: card.markdown, Form.HTML: card.html}[form](told)
    if output is None:
        screen.result(told.to_dict(), written)
        return
    with replacing(output) as stream:
        stream.write(written)
    screen.result({"card": str(output)}, f"Privacy card: {output}")
