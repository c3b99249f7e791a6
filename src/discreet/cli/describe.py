"""``discreet explain`` and ``discreet solvers``: the privacy card of a model, and all solvers."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from discreet.cli import options, state
from discreet.cli.exits import CommandError, Exit
from discreet.cli.screen import Screen, table
from discreet.files import replacing
from discreet.page import document

if TYPE_CHECKING:
    from discreet.inference import Summary
    from discreet.solvers import Description

Form = StrEnum("Form", ["TEXT", "MARKDOWN", "HTML", "PDF"])
_ENDINGS = {
    ".html": Form.HTML, ".htm": Form.HTML, ".md": Form.MARKDOWN, ".txt": Form.TEXT,
    ".pdf": Form.PDF,
}  # fmt: skip
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")


def explain(
    model: options.ModelFile,
    form: Annotated[
        Form | None,
        Option("--format", help="By default by the ending of the output's name, else text."),
    ] = None,
    output: options.OutputFile = None,
    ledger: options.LedgerPlace = None,
    dataset: options.DatasetName = None,
    effects: Annotated[
        Path | None,
        Option(help="Draw the effect of each column, with its noise, to this .png or .svg."),
    ] = None,
    title: Annotated[str | None, Option(help="Name of the model; by default its file's.")] = None,
    data: Annotated[str, Option(help="Name of the data set; by default the schema's.")] = "",
    owner: Annotated[str, Option(help="Who owns the data; by default the schema's.")] = "",
    purpose: Annotated[str, Option(help="What the model is for; by default the schema's.")] = "",
    nist: Annotated[bool, Option("--nist", help="Self-assessment along NIST SP 800-226.")] = False,
    registry: Annotated[
        Path | None,
        Option(
            help="Draft a record for the registry of differential-privacy deployments (YAML). In a "
            "terminal it asks for what only you know."
        ),
    ] = None,
    answer: Annotated[
        list[str] | None,
        Option(metavar="FIELD=TEXT", help="Answer for --registry, such as actors=…"),
    ] = None,
    coefficients: Annotated[
        bool, Option(help="Show the coefficients with standard errors and intervals instead.")
    ] = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Show a model's privacy card: the guarantee, its conditions, what is public, and the risk.

    A card is written as text, Markdown, HTML or PDF (through an installed Chromium or Chrome).

    Example: discreet explain visits.json --owner "Data office" --output card.html
    """
    from discreet import card, load
    from discreet.card.documents import assessment

    screen = Screen(as_json=as_json)
    state.check_output(output, force, model)
    state.check_figure(effects, force, model, option="--effects")
    state.check_output(registry, force, model, option="--registry")
    if answer and registry is None:
        raise CommandError("--answer is for a registry record: pass --registry FILE too.")
    answers = options.pairs("--answer", answer, "FIELD=TEXT")
    form = _form_of(output) if form is None else form
    if form is Form.PDF and output is None:
        raise CommandError("a PDF needs a file: pass --output card.pdf.")
    fitted: Any = load(model)
    if effects is not None:
        fitted.plot_effects().savefig(effects, dpi=150)
        screen.note(f"Effects: {effects}")
    if coefficients:
        _show_coefficients(screen, fitted.summary(), form, output)
        return
    content = card.card(
        fitted,
        title=title or model.stem,
        dataset=data,
        owner=owner,
        purpose=purpose,
        ledger=state.find_dataset(ledger, dataset, [str(model)]),
        sha256=hashlib.sha256(model.read_bytes()).hexdigest(),
    )
    if registry is not None:
        _write_record(screen, content, registry, answers)
        if output is None:
            return
    kind = "Privacy card"
    if nist:
        content = assessment(content)
        kind = "Self-assessment"
    writers = {Form.TEXT: card.text, Form.MARKDOWN: card.markdown}
    text = writers.get(form, card.html)(content)
    if output is None:
        screen.result(content.to_dict(), text)
    elif form is Form.PDF:
        _print_pdf(text, output)
        screen.result({"card": str(output)}, f"{kind}: {output}")
    else:
        screen.save(output, text, "card", kind)


def _form_of(output: Path | None) -> Form:
    """Return the form of a card by the ending of its file's name; text without a file."""
    form = Form.TEXT if output is None else _ENDINGS.get(output.suffix.lower())
    if form is None:
        raise CommandError(f"{output}: name it {', '.join(_ENDINGS)}, or pass --format.")
    return form


def _write_record(screen: Screen, content: Any, path: Path, answers: dict[str, str]) -> None:
    """Write a draft of a registry record, and say what is left to fill in."""
    from discreet.card.documents import QUESTIONS, answered, record, yaml_text

    known = answered(content, answers)  # refuses wrong answers before anything is asked
    if sys.stdin.isatty() and not screen.as_json:
        for name, question in QUESTIONS.items():
            if name in known:
                continue
            kinds = f" ({', '.join(question.choices)})" if question.choices else ""
            said = typer.prompt(f"{name}: {question.text}{kinds}", default="", show_default=False)
            if said.strip():
                answers[name] = said.strip()
    made = record(content, answers)
    about = "Draft of a record for the registry of differential-privacy deployments."
    with replacing(path) as stream:
        stream.write(yaml_text(made, about))
    left = [name for name in QUESTIONS if name not in answered(content, answers)]
    said = f"Registry record: {path} (tier {made['tier']})."
    if left:
        said += f" Left to fill in, there or with --answer FIELD=TEXT: {', '.join(left)}."
    screen.result({"record": str(path), "open": left}, said)


def _print_pdf(page: str, output: Path) -> None:
    """Print a page to a PDF with an installed browser."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise CommandError(
            "a PDF needs Chromium or Chrome on the PATH. Or write card.html, open it in any "
            "browser and print it to a PDF."
        )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "card.html")
        made = Path(folder, "card.pdf")
        source.write_text(page, encoding="utf-8")
        command = [
            browser, "--headless", "--disable-gpu", f"--user-data-dir={folder}/profile",
            "--no-pdf-header-footer", f"--print-to-pdf={made}", source.as_uri(),
        ]  # fmt: skip
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # as root it runs without a sandbox only
            command.insert(1, "--no-sandbox")
        try:
            subprocess.run(command, capture_output=True, timeout=120, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CommandError(
                f"{browser} failed: {type(error).__name__}.", Exit.UNEXPECTED
            ) from None
        if not made.is_file():
            raise CommandError(f"{browser} wrote no PDF. Print card.html instead.", Exit.UNEXPECTED)
        with replacing(output) as stream:
            stream.buffer.write(made.read_bytes())


def _show_coefficients(screen: Screen, made: Summary, form: Form, output: Path | None) -> None:
    """Show the table of coefficients, or write it as text or HTML."""
    text = str(made)
    if form is Form.HTML:
        text = document(made.title, made._repr_html_(), style="body{margin:2rem}")
    elif form is Form.MARKDOWN:
        text = f"```text\n{made}\n```\n"
    if output is None:
        screen.result(made.to_dict(), text)
    else:
        screen.save(output, f"{text}\n", "coefficients", "Coefficients")


def solvers(
    name: Annotated[
        str | None, Argument(help="Describe this one.", autocompletion=options.complete_solvers)
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the solvers, or describe one: its paper, conditions and settings.

    Example: discreet solvers objpert
    """
    from discreet.solvers import describe, names

    screen = Screen(as_json=as_json)
    if name is not None:
        if name not in names():
            raise CommandError(f"unknown solver {name!r}. Known: {', '.join(names())}.")
        described = describe(name)
        screen.result(_plain(described), str(described))
        return
    listed: list[dict[str, object]] = []
    rows: list[tuple[str, ...]] = []
    for each in names():
        described = describe(each)
        listed.append({**_plain(described), "name": each, "method": described.name})
        row: tuple[str, ...] = (each, described.summary, "NOT PRIVATE", "none", described.losses)
        if each == "auto":
            row = (each, "Chooses a preparation and a solver by public numbers (default).")
        elif each != described.name:
            row = (each, f"Another name of {described.name}.")
        elif described.private:
            relations = ", ".join(described.relations)
            row = (each, described.summary, relations, described.budgets, described.losses)
        rows.append(row)
    header = ("name", "method", "relations", "budgets", "losses")
    title = "Solvers (describe one with: discreet solvers NAME)"
    screen.result(listed, table(title, header, rows, numbers=False))


def _plain(described: Description) -> dict[str, object]:
    """Return a description as data that JSON can hold."""
    fields = dataclasses.asdict(described)
    fields["parameters"] = {
        key: value if isinstance(value, str | int | float | bool | None) else repr(value)
        for key, value in fields["parameters"].items()
    }
    return fields
