"""A made-up benchmark of the size and kind of a real one: everything a report must show."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pandas as pd

from discreet_bench.runs import complete

DATA = {  # rows, columns, accuracy without privacy, how hard noise hits
    "adult": (36_177, 105, 0.848, 0.02),
    "kddcup99 (70,000 rows)": (70_000, 118, 0.991, 0.012),
    "covertype": (406_709, 54, 0.713, 0.015),
    "mnist": (60_000, 784, 0.915, 0.11),
    "gisette": (6_000, 5_000, 0.966, 0.3),
}
EPSILONS = (0.05, 0.1, 0.5, 1.0)
RELATIONS = ("add_remove", "replace_one")
LINES = {  # (method, calibration, variant, tuning): how much of noise's harm it takes
    ("auto", "tight", "private", "default"): 0.9,
    ("gd", "tight", "private", "default"): 1.05,
    ("shrunk-gd", "tight", "private", "default"): 1.0,
    ("newton", "tight", "private", "default"): 1.2,
    ("agd", "tight", "private", "default"): 1.25,
    ("agd", "published", "private", "default"): 1.4,
    ("agd", "tight", "private", "grid"): 1.0,
    ("amp", "tight", "private", "default"): 1.3,
    ("amp", "tight", "private", "selected"): 1.25,
    ("amp-hf", "tight", "private", "default"): 1.15,
    ("amp-hf", "published", "as released", "default"): 0.95,
    ("objpert", "tight", "private", "default"): 1.5,
    ("outpert", "tight", "private", "default"): 1.8,
    ("rrpsgd", "tight", "private", "default"): 2.2,
    ("permutation-sgd", "tight", "private", "default"): 1.7,
    ("permutation-sgd", "tight", "private", "grid"): 1.3,
    ("sgd", "tight", "private", "default"): 1.2,
    ("sgd-ma", "tight", "private", "default"): 1.25,
    ("frank-wolfe", "tight", "private", "default"): 2.0,
    ("privgene", "tight", "private", "default"): 2.6,
    ("nonprivate", "", "not private", "default"): 0.0,
    ("majority", "", "not private", "default"): 4.0,
    ("scikit-learn", "", "not private", "default"): 0.02,
    ("diffprivlib", "", "rival", "default"): 1.9,
    ("opacus", "", "rival", "default"): 1.35,
    ("dp-ebm", "", "rival", "default"): 1.6,
}
VERSIONS = {"python": "3.11.2", "numpy": "2.3.1", "scikit-learn": "1.8.0", "benchopt": "1.10"}
MACHINE = {"processor": "x86_64, 2 cores", "memory": "8 GB", "system": "Linux 6.1"}


def made_runs(repeats: int = 5, experiment: str = "amp-fig1") -> pd.DataFrame:
    """Runs of 26 lines on five data sets, with refusals, grids, rivals and released code."""
    noise = np.random.default_rng(0)
    rows = []
    for data, epsilon, relation, line, repeat in product(
        DATA, EPSILONS, RELATIONS, LINES, range(repeats)
    ):
        settings = [{"splits": k} for k in (20, 60)] if line[3] == "grid" else [{}]
        rows += [
            _run(noise, data, epsilon, relation, line, repeat, one, experiment) for one in settings
        ]
    return complete(pd.DataFrame(rows))


def _run(noise, data, epsilon, relation, line, repeat, setting, experiment):
    n, d, best, harm = DATA[data]
    method, calibration, variant, tuning = line
    harm *= LINES[line] * (1.4 if relation == "replace_one" else 1.0) / (epsilon + 0.15) ** 0.6
    harm *= 1 + 0.3 * ((hash_of(method + data) % 7) / 7 - 0.5) + 0.002 * setting.get("splits", 0)
    accuracy = best - harm + 0.004 * noise.normal()
    accuracy = float(np.clip(accuracy, 0.5, 1.0))
    row = {
        "experiment": experiment, "data": data, "n": n, "d": d, "classes": 2, "loss": "logistic",
        "alpha": 1 / n, "epsilon": epsilon, "delta": n**-2.0, "relation": relation,
        "repeat": repeat, "method": method, "calibration": calibration, "variant": variant,
        "tuning": tuning, "setting": json.dumps(setting), "seed": repeat, "jobs": 2,
        "when": f"2026-11-1{repeat % 9}T10:00:00", "discreet": "0.1.0",
        "versions": json.dumps(VERSIONS), "machine": json.dumps(MACHINE),
    }  # fmt: skip
    if method == "frank-wolfe" and d < 60:
        return row | {"problem": f"P-FW needs more columns than {d}; use solver='agd'."}
    if method == "privgene" and epsilon < 0.1:
        return row | {"problem": "PrivGene needs epsilon of at least 0.1 here."}
    if method == "opacus" and data == "gisette" and repeat == 0:
        return row | {"problem": "timed out after 600 seconds"}
    private = variant != "not private"
    spent = epsilon * (3.7 if variant == "as released" else 0.9999)
    return row | {
        "accuracy": accuracy,
        "balanced_accuracy": accuracy - 0.03,
        "auc": min(1.0, accuracy + 0.05),
        "log_loss": 0.9 - 0.8 * accuracy,
        "objective": 0.35 + harm,
        "excess_objective": harm if private else 0.0,
        "seconds": n * d * 1e-8 * (1 + hash_of(method) % 30) * float(noise.uniform(0.9, 1.1)),
        "peak_mb": n * d * 8e-6 * 1.2,
        "epsilon_spent": spent if private else np.nan,
        "delta_spent": n**-2.0 if private else np.nan,
        "epsilon_recomputed": spent * 0.998 if private and variant != "rival" else np.nan,
        "guarantee": f"({epsilon:g}, {n**-2.0:.2g})-DP under {relation} neighbours."
        if private
        else "",
    }


def hash_of(words: str) -> int:
    """A number that is the same in every process."""
    return sum((k + 1) * ord(letter) for k, letter in enumerate(words))


COMMANDS = {"amp-fig1": "discreet bench run amp-fig1 --repeats 5", "exp": "discreet bench run exp"}
NASTY = '</script><b>bold</b><img src=x onerror="boom()">'


def few(runs):
    """Two data sets and two ε, with three measures of quality: what takes long is comparing."""
    kept = runs[runs["data"].isin(["adult", "covertype"]) & runs["epsilon"].isin([0.05, 0.1])]
    return kept.assign(balanced_accuracy=np.nan, auc=np.nan, objective=np.nan)


def nasty(runs):
    names = {"agd": f"agd{NASTY}"}
    problems = runs["problem"].where(runs["problem"] == "", NASTY)
    return runs.assign(
        method=runs["method"].replace(names),
        data=runs["data"].replace({"adult": NASTY}),
        guarantee=NASTY,
        problem=problems,
        machine=json.dumps({"cpu": NASTY}),
        versions=NASTY,
    )
