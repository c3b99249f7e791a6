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
from discreet.cli.screen import Screen, name_of
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
    "squared": "numbers: least squares",
    "poisson": "counts: Poisson regression",
    "gamma": "positive numbers: gamma regression",
    "quantile": "numbers: regression of the median, or of --quantile",
}


def fit(
    files: options.DataFiles,
    schema: Annotated[Path, Option(help="Schema file of the table (see: discreet schema draft).")],
    epsilon: Annotated[float, Option(help="ε, the privacy budget: smaller is more private.")],
    delta: options.Delta,
    output: Annotated[Path, Option("--output", "-o", help="Model file to write.")],
    target: Annotated[
        str | None, Option(help="Column to predict, if the schema has no target.")
    ] = None,
    unit: options.Unit = None,
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
    test_seed: Annotated[
        int | None, Option(help="For tests only: fix the noise, so that nothing is private.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Fit a private model to a table and write it to a file.

    Everything is checked before the table is read; the model file appears only when it is complete.
    A table may be larger than memory.

    Example: discreet fit visits.csv --schema visits.toml --epsilon 1 --delta 1e-6 -o visits.json
    """
    import discreet
    from discreet.tables import Schema

    screen = Screen(as_json=as_json)
    state.check_output(output, force, *files, schema)
    declared = Schema.read(schema)
    if target is not None:
        declared = declared.with_target(target)
    steps: list[discreet.Centre | discreet.Whiten] = []
    if centre is not None:
        steps.append(discreet.Centre(share=centre))
    if whiten is not None:
        steps.append(discreet.Whiten(share=whiten))
    budget = Budget(epsilon, delta, relation)
    charged = state.find_dataset(ledger, dataset, files, block, purpose, budget)
    cluster = nullcontext() if engine is None else options.connected(engine)
    stages = {
        "reading": f"reading {name_of(files)}",
        "fitting": "fitting (share of the budget spent)",
    }
    room = state.room_for(output, _room(declared))
    with room, cluster, screen.bar(stages["reading"]) as bar:
        model = discreet.fit(
            None,
            files,
            schema=declared,
            unit=unit,
            epsilon=epsilon,
            delta=delta,
            relation=relation,
            ledger=charged,
            loss=loss,
            class_weight=_class_weight(class_weight) if class_weight else None,
            preparation=steps,
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
            random_state=test_seed,
            **({} if quantile is None else {"quantile": quantile}),
        )
    state.keep(model.save, output, "the model")
    report = model.report
    screen.note(report.size)
    screen.result(
        {"model": os.fspath(output), **report.record},
        f"{report.text}\n\nModel: {output}. Its privacy card: discreet explain {output}",
        done=f"The model was written to {output}",
    )


def _room(schema: Schema) -> int:
    """Return the bytes on a disk that a model needs at most in a typical case, from its schema."""
    target = schema.target
    models = len(target.labels) if target is not None and target.is_classification else 1
    return MODEL_BYTES + WEIGHT_BYTES * models * schema.width


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
