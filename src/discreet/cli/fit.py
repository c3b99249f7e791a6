"""``discreet fit``: from a table on disk to a private model in a file; and ``discreet plan``."""

from __future__ import annotations

import math
import os
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from discreet.cli import options, state
from discreet.cli.exits import CommandError
from discreet.cli.screen import Screen, name_of, prose
from discreet.core import Budget, Relation

if TYPE_CHECKING:
    from discreet.tables import Schema

MODEL_BYTES = 2**20  # space that is held for a model file: guarantee, schema and settings
WEIGHT_BYTES = 64  # the same for one weight and what prepares its column, as digits
LOSSES = {
    "logistic": "classes: logistic regression",
    "huber": "classes: support vector machine with a smoothed hinge; numbers: robust regression",
    "hinge": "classes: support vector machine",
    "sigmoid": "classes: a smooth count of errors, not convex",
    "ordinal": "classes in the order of the schema: proportional odds",
    "squared": "numbers: least squares",
    "poisson": "counts: Poisson regression",
    "gamma": "positive numbers: gamma regression",
    "quantile": "numbers: regression of the median, or of --quantile",
}


def fit(
    files: options.DataFiles,
    epsilon: Annotated[float, Option(help="ε, the privacy budget: smaller is more private.")],
    delta: options.Delta,
    output: Annotated[Path, Option("--output", "-o", help="Model file to write.")],
    schema: Annotated[
        Path | None,
        Option(
            help="Schema file of the table (see: discreet schema draft). Without one, Parquet and "
            "Feather files are read by the types of their columns; --column declares texts."
        ),
    ] = None,
    target: Annotated[
        str | None, Option(help="Column to predict, if there is no schema or it has no target.")
    ] = None,
    unit: options.Unit = None,
    sql: options.Sql = None,
    column: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=LOW:HIGH",
            help="Without a schema: public bounds of a column of numbers, NAME=number if it has "
            "none, NAME=TEXT,TEXT,… for the levels of texts, or NAME=ignored; repeatable.",
        ),
    ] = None,
    classes: Annotated[
        str | None,
        Option(
            metavar="LABEL,LABEL,…",
            help="Without a schema: the labels of the target, if its type does not tell them.",
        ),
    ] = None,
    target_bounds: Annotated[
        str | None,
        Option(metavar="LOW:HIGH", help="Without a schema: public bounds of a numeric target."),
    ] = None,
    loss: Annotated[
        str | None,
        Option(
            help="; ".join(f"{name} ({what})" for name, what in LOSSES.items())
            + ". By default logistic for classes, squared for numbers.",
            autocompletion=lambda incomplete: [n for n in LOSSES if n.startswith(incomplete)],
        ),
    ] = None,
    quantile: Annotated[
        float | None, Option(help="Quantile for --loss quantile; 0.5 is the median.")
    ] = None,
    solver: Annotated[
        str, Option(help="See: discreet solvers.", autocompletion=options.complete_solvers)
    ] = "auto",
    relation: options.RelationName = Relation.ADD_REMOVE,
    alpha: Annotated[float, Option(help="Strength of the penalty.")] = 1e-4,
    data_norm: Annotated[
        float | None,
        Option(
            help="Bound on the norm of a row: rows of a larger norm are scaled down to it. By "
            "default the schema's, for solvers that need one."
        ),
    ] = None,
    class_weight: Annotated[
        list[str] | None,
        Option(
            metavar="LABEL=NUMBER",
            help='Weight of a class, a public number; give the option once per class. Or "balanced"'
            ": all classes have the same total weight, by a noisy count that the fit pays for.",
        ),
    ] = None,
    intercept: Annotated[bool, Option(help="Fit a constant term.")] = True,
    features: Annotated[
        str,
        Option(
            help="linear; additive: a curve per numeric column; kernel: random Fourier features. "
            "By default additive where rows and budget allow it."
        ),
    ] = "auto",
    inference: Annotated[
        bool,
        Option(
            "--inference",
            help="Spend most of the budget on standard errors and intervals of the coefficients, "
            "and print them.",
        ),
    ] = False,
    odds_ratios: Annotated[
        bool,
        Option("--odds-ratios", help="With --inference: print odds ratios of a logistic model."),
    ] = False,
    centre: Annotated[float | None, Option(help="Share of the budget for a private mean.")] = None,
    whiten: Annotated[float | None, Option(help="Share of the budget for whitening.")] = None,
    ignore_extra: options.IgnoreExtra = False,
    memory: options.Memory = None,
    temp_folder: options.Folder = None,
    engine: options.Engine = None,
    ledger: options.LedgerPlace = None,
    dataset: options.DatasetName = None,
    block: options.Blocks = None,
    purpose: options.Purpose = "",
    force: options.Force = False,
    test_seed: options.TestSeed = None,
    as_json: options.AsJson = False,
) -> None:
    """Fit a private model to a table and write it to a file.

    Everything is checked before the table is read; the model file appears only when it is complete.
    A table may be larger than memory.

    Example: discreet fit visits.csv --schema visits.toml --epsilon 1 --delta 1e-6 -o visits.json

    Example: discreet fit visits.parquet --target readmitted --unit patient_nbr --epsilon 1
    --delta 1e-6 --column age=0:110 --column ward=A,B,C -o visits.json
    """
    import discreet

    screen = Screen(as_json=as_json)
    state.check_output(output, force, *files, *([] if schema is None else [schema]))
    if odds_ratios and not inference:
        raise CommandError("--odds-ratios are part of the summary: pass --inference too.")
    declared = _schema(schema, target)
    budget = Budget(epsilon, delta, relation)
    charged = state.find_dataset(ledger, dataset, files, block, purpose, budget)
    cluster = nullcontext() if engine is None else options.connected(engine)
    stages = {
        "reading": f"reading {name_of(files)}",
        "fitting": "fitting (share of the budget spent)",
    }
    more = _declarations(column, classes, target_bounds)
    if quantile is not None:
        more["quantile"] = quantile
    room = state.room_for(output, _room(declared))
    with room, cluster, screen.bar(stages["reading"]) as bar:
        model = discreet.fit(
            target if declared is None else None,
            options.table_of(files, sql),
            schema=declared,
            unit=unit,
            epsilon=epsilon,
            delta=delta,
            relation=relation,
            ledger=charged,
            loss=loss,
            class_weight=_class_weight(class_weight) if class_weight else None,
            preparation=_steps(centre, whiten),
            ignore_extra=ignore_extra,
            memory=memory,
            folder=temp_folder,
            engine=None if engine is None else "dask",
            progress=lambda stage, share: bar(share, stages[stage]),
            solver=solver,
            alpha=alpha,
            data_norm=data_norm,
            fit_intercept=intercept,
            features=features,
            inference=inference or "auto",
            random_state=test_seed,
            **more,
        )
    state.keep(model.save, output, "the model")
    report = model.report
    screen.note(report.size)
    record = {"model": os.fspath(output), **report.record}
    text = prose(f"{report.text}\n\nModel: {output}. Its privacy card: discreet explain {output}")
    if inference:
        summary = model.summary(odds_ratios=odds_ratios)
        record["coefficients"] = summary.to_dict()
        text = f"{summary}\n\n{text}"
    screen.result(
        record,
        text,
        done=f"The model was written to {output}",
    )


def _schema(path: Path | None, target: str | None) -> Schema | None:
    """Return the schema that a file has, with the target of the fit; None without a file."""
    from discreet.tables import Schema

    if path is None and target is None:
        raise CommandError("name the column to predict with --target, or pass --schema FILE.")
    if path is None:
        return None
    read = Schema.read(path)
    return read if target is None else read.with_target(target)


def _steps(centre: float | None, whiten: float | None) -> list[Any]:
    """Return the steps of the preparation that have a share of the budget."""
    from discreet import Centre, Whiten

    steps: list[Any] = []
    if centre is not None:
        steps.append(Centre(share=centre))
    if whiten is not None:
        steps.append(Whiten(share=whiten))
    return steps


def _declarations(
    columns: list[str] | None, classes: str | None, target_bounds: str | None
) -> dict[str, Any]:
    """Return the declarations of a fit without a schema, by the keywords of `discreet.fit`."""
    found: dict[str, Any] = {}
    if columns:
        found["columns"] = columns_of(columns)
    if classes is not None:
        found["classes"] = [label.strip() for label in classes.split(",")]
    if target_bounds is not None:
        found["target_bounds"] = _interval("--target-bounds", target_bounds)
    return found


def _room(schema: Schema | None) -> int:
    """Return the bytes on a disk that a model needs at most in a typical case, from its schema."""
    if schema is None:
        return MODEL_BYTES
    target = schema.target
    models = len(target.labels) if target is not None and target.is_classification else 1
    return MODEL_BYTES + WEIGHT_BYTES * models * schema.width


def _interval(option: str, text: str) -> tuple[float, float]:
    """Return the two numbers of LOW:HIGH."""
    low, colon, high = text.partition(":")
    try:
        return float(low), float(high if colon else "")
    except ValueError:
        raise CommandError(f"{option} must be LOW:HIGH, such as 0:110; got {text!r}.") from None


def columns_of(given: list[str]) -> dict[str, Any]:
    """Return what is declared about columns: bounds of numbers, or levels of texts."""
    from discreet.tables import Ignored

    found: dict[str, Any] = {}
    for name, value in options.pairs("--column", given, "NAME=LOW:HIGH or NAME=TEXT,…").items():
        if value in ("number", "ignored"):
            found[name] = None if value == "number" else Ignored()
        elif "," in value:
            found[name] = [text.strip() for text in value.split(",")]
        else:
            found[name] = _interval(f"--column {name}", value)
    return found


def _class_weight(given: list[str]) -> dict[str, float] | str:
    """Return the weights of classes by their labels, or "balanced"."""
    if given == ["balanced"]:
        return "balanced"
    weights: dict[str, float] = {}
    for text in given:
        label, equals, value = text.rpartition("=")
        try:
            weight = float(value)
        except ValueError:
            weight = math.nan
        if not equals or not 0 <= weight < math.inf:
            raise CommandError(
                f"--class-weight {text!r} must be LABEL=NUMBER, with a number of at least 0; or "
                "balanced, alone."
            )
        weights[label] = weight
    return weights


Task = StrEnum("Task", ["CLASSIFICATION", "REGRESSION"])


def plan(
    rows: Annotated[int, Option(help="Number of rows, or of people.")],
    columns: Annotated[int, Option(help="Number of columns after encoding.")],
    epsilon: Annotated[
        list[float] | None,
        Option(help="Values of ε; repeat the option. Default: 0.1, 0.3, 1, 3, 10."),
    ] = None,
    delta: Annotated[float | None, Option(help="δ. Default: 0.1/rows, at most 1e-6.")] = None,
    relation: Annotated[str, Option(help="add_remove or replace_one.")] = "add_remove",
    task: Annotated[Task, Option(help="What is fitted.")] = Task.CLASSIFICATION,
    repeats: Annotated[int, Option(help="Simulated fits per ε.")] = 3,
    figure: Annotated[Path | None, Option(help="Draw the plan to this .png or .svg.")] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Show what a budget will roughly buy, simulated with generated rows: nothing is spent.

    Example: discreet plan --rows 20000 --columns 20 --epsilon 1 --figure plan.png
    """
    screen = Screen(as_json=as_json)
    state.check_figure(figure, force)
    from discreet.tuning import plan as planning

    settings: Any = {"delta": delta, "relation": relation, "task": str(task), "repeats": repeats}
    made = planning.plan(rows, columns, epsilon or planning.GRID, **settings)
    if figure is not None:
        made.plot().savefig(figure, dpi=150)
    screen.result(made.to_dict(), str(made))
