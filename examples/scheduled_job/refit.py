"""A scheduled job: fit this week's model within the budget of the data set, or keep the old one.

    python refit.py visits.csv visits.toml models --ledger visits.sqlite --dataset visits \
        --epsilon 0.2

Each run is one release. The ledger charges it before a row is read and refuses it beyond the limit;
the job then ends with code 4 and leaves the model as it is. All exit codes are those of the command
``discreet``: 3 if the table does not match the schema, 7 if the ledger cannot be used. The new
model, its guarantee and its privacy card take the place of the old ones as whole files. Nothing of
the rows is written to the log.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from sklearn.pipeline import make_pipeline

from discreet import Bounds, Ledger, LogisticRegression, PrivacyError, TableError, save
from discreet.card import card, html
from discreet.files import replacing
from discreet.tables import Schema

log = logging.getLogger("refit")


def refit(asked: argparse.Namespace) -> None:
    """Fit, save and describe one model."""
    schema = Schema.read(asked.schema)
    if schema.target is None or not schema.target.is_classification:
        raise SystemExit(f"{asked.schema}: this job needs a target with classes.")
    dataset = Ledger(asked.ledger).open(asked.dataset).noting(purpose="scheduled refit")
    encoder = schema.transformer()
    X, y, groups = schema.open(asked.table)
    model = LogisticRegression(
        epsilon=asked.epsilon,
        delta=asked.delta,
        classes=list(schema.target.labels),
        columns=schema.numeric,
        preparation=[Bounds(schema.unbounded)] if schema.unbounded else None,
        ledger=dataset,
    )
    model.fit(X, y, groups=groups)
    pipeline = make_pipeline(encoder, model)
    asked.models.mkdir(parents=True, exist_ok=True)
    save(pipeline, asked.models / "model.json")
    with replacing(asked.models / "card.html") as stream:
        stream.write(html(card(pipeline, title=asked.dataset)))
    log.info("new model in %s: ε = %g", asked.models, model.guarantee_.epsilon)
    log.info("%r", dataset)


def main(arguments: list[str] | None = None) -> int:
    """Read the options and run the job; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", type=Path, help="file or folder of the rows")
    parser.add_argument("schema", type=Path, help="schema (TOML) of the rows")
    parser.add_argument("models", type=Path, help="folder for model.json and card.html")
    parser.add_argument("--ledger", required=True, help="file or address of the ledger")
    parser.add_argument("--dataset", required=True, help="name of the data set in the ledger")
    parser.add_argument("--epsilon", type=float, required=True, help="budget of one run")
    parser.add_argument("--delta", type=float, default=1e-6)
    try:
        refit(parser.parse_args(arguments))
    except (PrivacyError, TableError) as error:  # whose texts show no cell
        log.error("kept the old model: %s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    sys.exit(main())
