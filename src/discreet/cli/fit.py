"""``discreet fit``: from a table on disk to a private model in a file; and ``discreet plan``."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from discreet.cli import options
from discreet.cli.exits import Problem
from discreet.cli.screen import Screen
from discreet.core import Budget, Relation

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
    from sklearn.pipeline import Pipeline

    import discreet
    from discreet.solvers import resolve
    from discreet.tables import Schema, read

    screen = Screen(as_json=as_json)
    options.check_output(output, force, *files, schema)
    table = Schema.read(schema)
    if target is not None and (table.target is None or table.target.column != target):
        table = table.with_target(target)
    if table.target is None:
        raise Problem(f"{schema} names no target: pass --target COLUMN.")
    table = options.adapted(table, ignore_extra, unit)
    if table.spent is not None and table.spent.relation != relation:
        raise Problem(
            f"{schema} was estimated under {table.spent.relation!r}; its guarantee and the model's "
            f"add up only under the same relation. Pass --relation {table.spent.relation}."
        )
    if table.spent is not None and table.spent.unit != table.unit:
        drafted = "rows" if table.spent.unit is None else f"people by {table.spent.unit!r}"
        raise Problem(
            f"{schema} was estimated for {drafted}; its guarantee and the model's add up only for "
            "the same unit. Draft the schema again with the unit of the fit (--unit)."
        )
    steps: list[Any] = []
    if table.unbounded:
        steps.append(discreet.Bounds(columns=table.unbounded, whole=table.whole))
    for step, share in ((discreet.Centre, centre), (discreet.Whiten, whiten)):
        if share is not None:
            steps.append(step(share=share))
    model = _estimator(
        table,
        loss,
        class_weight,
        quantile,
        epsilon=epsilon,
        delta=delta,
        relation=str(relation),
        solver=solver,
        alpha=alpha,
        fit_intercept=intercept,
        random_state=test_seed,
        preparation=steps or None,
        data_norm=data_norm,
        ledger=options.spending(
            Budget(epsilon, delta, relation),
            options.find_dataset(ledger, dataset, files, block, purpose),
        ),
        features=features,
        numeric=table.numeric,
    )
    needs_norm = resolve(solver).needs_row_bound or centre is not None or whiten is not None
    if data_norm is None and needs_norm:
        model.set_params(data_norm=table.max_norm)
    model.check_settings()  # now, before a long file is read
    start = time.perf_counter()
    with options.room_for(output, _room(table)), options.connected(engine) as cluster:
        with screen.bar(f"reading {options.name_of(files)}") as bar:
            if cluster:
                from discreet.engines import dask

                X, y, groups = dask.open(files, table, labels=False)
            else:
                places: Any = {"memory": memory, "folder": temp_folder}
                X, y, groups = read(files, table, progress=bar, **places)
        read_in = time.perf_counter() - start
        with screen.bar("fitting (share of the budget spent)") as bar:
            model.set_params(progress=lambda at: bar(at.spent_share)).fit(X, y, groups=groups)
    model.set_params(progress=None)
    if table.target.is_classification:  # it was fitted to codes, which need far less memory
        model.rename_classes(table.target.labels)
    encoder = table.transformer(dtype="float32")
    pipeline = Pipeline([("table", encoder), ("model", model)])
    options.keep(partial(discreet.save, pipeline), output, "the model")
    seconds = time.perf_counter() - start
    shape = f"{X.shape[0]:,} rows and {X.shape[1]:,} encoded columns"
    if table.unit is not None:  # how many rows the people have is not public
        shape = f"the rows of all people, {X.shape[1]:,} encoded columns,"
    screen.note(f"Read {shape} in {read_in:.1f} s; fitted in {seconds - read_in:.1f} s.")
    guarantee, spent, text = model.guarantee_, table.spent, str(model.guarantee_)
    charged = None
    if model.ledger is not None:
        charged = {"entry": model.ledger_entry_, **model.ledger.summary()}
        text += f"\n\nEntry {model.ledger_entry_} of the ledger; data set {model.ledger!r}."
    if spent is not None and guarantee.private:
        text += (
            f"\n\nEstimating the schema from the same rows spent ε = {spent.epsilon:g}, "
            f"δ = {spent.delta:g} before. Together: ε = {spent.epsilon + guarantee.epsilon:g}, "
            f"δ = {spent.delta + guarantee.delta:g}."
        )
    # The model is written and its budget spent: a failure to print must not suggest otherwise.
    with screen.printing_may_fail(f"The model was written to {output}"):
        screen.result(
            {
                "model": os.fspath(output),
                "rows": X.shape[0] if table.unit is None else None,
                "unit": table.unit,
                "columns": X.shape[1],
                "seconds": round(seconds, 3),
                "guarantee": guarantee.to_dict(),
                "spent_on_schema": spent and dataclasses.asdict(spent),
                "ledger": charged,
            },
            f"{text}\n\nModel: {output}. Its privacy card: discreet explain {output}",
        )


def _room(table: Any) -> int:
    """Return the bytes on a disk that a model needs at most in a typical case, from its schema."""
    models = len(table.target.labels) if table.target.is_classification else 1
    return MODEL_BYTES + WEIGHT_BYTES * models * table.width


def _estimator(
    table: Any,
    loss: str | None,
    class_weight: list[str] | None,
    quantile: float | None,
    **settings: Any,
) -> Any:
    """Make the estimator for the schema's target and a loss."""
    import discreet

    if loss is not None and loss not in LOSSES:
        raise Problem(f"unknown loss {loss!r}. Known: {', '.join(LOSSES)}.")
    if quantile is not None and loss != "quantile":
        raise Problem("--quantile is for --loss quantile.")
    if table.target.is_classification:
        kind, estimators = "classes", {"logistic": discreet.LogisticRegression}
        estimators |= {
            name: partial(discreet.LinearSVC, loss=name) for name in ("huber", "hinge", "sigmoid")
        }
        settings["classes"] = list(range(len(table.target.labels)))
        settings["class_weight"] = _class_weight(class_weight, table.target.labels)
    else:
        if class_weight:
            raise Problem("--class-weight is for targets with classes.")
        kind = "numbers"
        level = 0.5 if quantile is None else quantile
        estimators = {
            "squared": discreet.LinearRegression,
            "huber": discreet.HuberRegressor,
            "poisson": discreet.PoissonRegressor,
            "gamma": discreet.GammaRegressor,
            "quantile": partial(discreet.QuantileRegressor, quantile=level),
        }
        settings["target_bounds"] = (table.target.low, table.target.high)
    chosen = next(iter(estimators)) if loss is None else loss
    if chosen in estimators:
        return estimators[chosen](**settings)
    raise Problem(
        f"--loss {loss} is not for the target {table.target.column!r}, which has {kind}: see "
        "discreet fit --help."
    )


def _class_weight(given: list[str] | None, labels: tuple[str, ...]) -> Any:
    """Return the weights of classes by their codes, "balanced", or None."""
    if not given or given == ["balanced"]:
        return given[0] if given else None
    weights: dict[int, float] = {}
    for text in given:
        label, equals, value = text.rpartition("=")
        try:
            weight = float(value)
        except ValueError:
            equals, weight = "", 0.0
        if not equals or label not in labels or not 0 <= weight < math.inf:
            raise Problem(
                f"--class-weight {text!r} must be LABEL=NUMBER, with a number of at least 0 and "
                f"one of the labels {', '.join(map(repr, labels))}; or balanced, alone."
            )
        weights[labels.index(label)] = weight
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
    options.check_figure(figure, force)
    from discreet.tuning import plan as planning

    settings: Any = {"delta": delta, "relation": relation, "task": str(task), "repeats": repeats}
    made = planning.plan(rows, columns, epsilon or planning.GRID, **settings)
    if figure is not None:
        made.plot().savefig(figure, dpi=150)
    screen.result(made.to_dict(), str(made))
