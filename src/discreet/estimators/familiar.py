"""Advice for users of other libraries: keywords they try, fitted steps, an ε that nobody chose.

A keyword that has another name here, or no meaning under a privacy budget, is refused with a
sentence that says what to use. Nothing here reads a row.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import multiprocessing
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any, Final, TypeVar

from sklearn import get_config
from sklearn.pipeline import Pipeline

from discreet.accounting.budget import Budget
from discreet.card.leaks import leaky_steps, steps_of
from discreet.errors import PrivacyError, PrivacyLeakWarning
from discreet.statement import GROUPS_LOST, learned_outside

Estimator = TypeVar("Estimator", bound=type)

UNCHOSEN: Final = float("1.0")
"""The default of ``epsilon``: an object of its own, so that the same number given by a caller is
another one. Copies and clones keep the object."""

_POINTED_OUT = threading.Event()
"""Set once a fit with the default ε has warned in this process."""

_FRAMES = 200
"""Number of callers among which a pipeline or a search is searched for."""

_SEARCHES = "sklearn.model_selection."
"""Modules of searches."""

_ALPHA = (
    "use alpha, the strength of the L2 penalty on the mean loss of prepared rows. scikit-learn's C "
    "is alpha = 1/(C·n) on rows as they are"
)
_ITERATIONS = "the number of passes is part of the budget's plan: use solver=GD(iterations=50)"
_NOISE = "noise follows from epsilon and delta; the guarantee states it"
_TARGET = "use target_bounds=(low, high) for the target"
_COLUMNS = (
    "use columns={'age': (17, 90)}, or a schema: the default needs no bounds and estimates norms, "
    "means and scales within the budget"
)
_KINDS = (
    "kinds follow from the types of a table; columns declares others: a list of levels, "
    "discover(), or a kind of discreet.tables such as Ordinal(['low', 'high'])"
)
_CLIP = "use solver=GD(gradient_clip=1.0); the default sets it"
_BATCH = "the default uses all rows in each pass; use solver=AGD(sampling_rate=0.1) for samples"
_THREADS = "kernels and BLAS use the threads that OMP_NUM_THREADS allows"
_SEED = "use random_state, in tests only: with a fixed seed the fit protects nobody"
_LEDGER = "use ledger=Ledger('visits.sqlite').open('visits'), which counts all releases"
_STEP = "steps follow from the budget; use solver=GD(step_size=1.0) to set one"
_ALWAYS = "leave it out: it has no effect here"

_ADVICE = {
    # scikit-learn
    "C": _ALPHA,
    "penalty": f"the penalty is L2; {_ALPHA}",
    "l1_ratio": f"the penalty is L2; {_ALPHA}",
    "max_iter": _ITERATIONS,
    "n_iter": _ITERATIONS,
    "tol": f"stopping by a tolerance would depend on the rows; {_ITERATIONS}",
    "early_stopping": f"stopping early would depend on the rows; {_ITERATIONS}",
    "n_jobs": _THREADS,
    "dual": _ALWAYS,
    "intercept_scaling": _ALWAYS,
    "copy_X": "leave it out: X is never written to",
    "multi_class": "leave it out: more than two classes are one model where that is possible",
    "warm_start": "each fit starts anew; count several fits with ledger=",
    "normalize": "leave it out: the default scales rows privately; else use preparation=[Scale()]",
    "positive": "coefficients have no sign constraint",
    "learning_rate": _STEP,
    "eta0": _STEP,
    "sample_weight": "pass it to fit: fit(X, y, sample_weight=…)",
    "groups": "pass it to fit: fit(X, y, groups=ids)",
    "seed": _SEED,
    "categorical_features": _KINDS,
    "feature_types": _KINDS,
    "cat_features": _KINDS,
    "enable_categorical": _KINDS,
    # diffprivlib
    "accountant": _LEDGER,
    "bounds": _COLUMNS,
    "bounds_X": _COLUMNS,
    "bounds_y": _TARGET,
    "range_X": _COLUMNS,
    # Opacus and its kind
    "noise_multiplier": _NOISE,
    "sigma": _NOISE,
    "target_epsilon": "use epsilon",
    "eps": "use epsilon",
    "privacy_budget": "use epsilon and delta",
    "target_delta": "use delta",
    "max_grad_norm": _CLIP,
    "l2_norm_clip": _CLIP,
    "clipping": _CLIP,
    "batch_size": _BATCH,
    "sample_rate": _BATCH,
    "poisson_sampling": _BATCH,
    "lr": _STEP,
    "momentum": "use solver=GD(momentum=0.9); the default sets it",
    "weight_decay": "use alpha, the strength of the L2 penalty",
    "noise_generator": _SEED,
    "grad_sample_mode": _ALWAYS,
    "epochs": _ITERATIONS,
    "optimizer": "use solver, for example solver='gd' or solver=AGD()",
    "secure_mode": "leave it out: noise is always exact, with bits of the operating system",
    "secure_rng": "leave it out: noise is always exact, with bits of the operating system",
}
"""Keywords of other libraries, with the setting to use instead."""

_SCALERS = (
    "use discreet.PrivateScaler(epsilon=…), or no scaler: solver='auto' centres and scales rows "
    "within its own budget"
)
_IMPUTERS = "use discreet.PrivateImputer(epsilon=…), or SimpleImputer(strategy='constant')"
_SELECTORS = (
    "choose columns by public knowledge; solver='auto' and 'shrunk-gd' leave out columns that look "
    "like noise, within the budget"
)
_REDUCERS = (
    "use preparation=[Radius(), Centre(), Whiten()], or no step: solver='auto' whitens rows within "
    "its own budget. GaussianRandomProjection learns nothing from rows"
)
_ENCODERS = (
    "use schema.transformer(), or list the categories: categories=[…], which are then public"
)
_INSTEAD = {
    "sklearn.preprocessing._encoders": _ENCODERS,
    "sklearn.preprocessing._target_encoder": _ENCODERS,
    "sklearn.preprocessing._discretization": "use schema.transformer(), with public bounds",
    "sklearn.preprocessing": _SCALERS,
    "sklearn.impute": _IMPUTERS,
    "sklearn.feature_selection": _SELECTORS,
    "sklearn.decomposition": _REDUCERS,
    "sklearn.manifold": _REDUCERS,
    "sklearn.feature_extraction": "use HashingVectorizer or FeatureHasher, which learn nothing",
}
"""Private alternatives by the module of a step; the first that fits counts."""

_OTHERWISE = "use schema.transformer() or a preparation, or a step that learns nothing from rows"

_LOST_GROUPS = (
    "groups were given to the splitter, but not to this fit: it protects single rows, not people. "
    "Call sklearn.set_config(enable_metadata_routing=True) and pass params={'groups': ids}, so "
    "that both get them."
)


def refuse(kind: str, given: Iterable[str], known: Sequence[str], error: type[Exception]) -> None:
    """Raise if a keyword is not known, with advice on what to use."""
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            advice = _ADVICE.get(name, f"did you mean {close[0]}?" if close else "")
            text = f" {advice[0].upper()}{advice[1:]}".rstrip("?") if advice else ""
            stop = "?" if advice.endswith("?") else "." if advice else ""
            known_ones = "" if name in _ADVICE else f" Its parameters are {', '.join(known)}."
            raise error(f"{kind} has no parameter {name!r}.{text}{stop}{known_ones}")


def familiar(kind: Estimator) -> Estimator:
    """Make a class refuse keywords of other libraries with advice; for use as a decorator.

    The signature stays: scikit-learn reads it to clone an estimator.
    """
    plain: Callable[..., None] = kind.__init__  # type: ignore[misc]  # of this very class
    names = [name for name in inspect.signature(plain).parameters if name != "self"]
    known = frozenset(names)

    @functools.wraps(plain)
    def init(self: Any, *args: Any, **given: Any) -> None:
        if not known.issuperset(given):
            refuse(type(self).__name__, given, names, TypeError)
        plain(self, *args, **given)

    kind.__init__ = init  # type: ignore[misc]
    return kind


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first caller outside this package."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").startswith("discreet."):
        frame = frame.f_back
        level += 1
    warnings.warn(text, category, stacklevel=level)


def warn_of_fit(kind: type, budget: Budget, units: Any, process: Any) -> tuple[str, ...]:
    """Warn about settings under which the guarantee says less than it seems to.

    ``units`` and ``process`` are the `PrivacyUnits` and the `Process` of a fit by an estimator of
    this ``kind``. Returns what a guarantee has to say about steps of a pipeline that it does not
    cover.
    """
    if not process.chosen and not _POINTED_OUT.is_set():
        _POINTED_OUT.set()
        warn(
            f"epsilon was not given, so the fit has the default budget ε = {UNCHOSEN:g}. How much "
            "privacy the rows need is a decision: pass epsilon, for example epsilon=1.0."
        )
    outside = warn_of_callers(kind, grouped=units.unit != "row")
    if budget.delta * units.size >= 1:
        whole = "a whole row" if units.unit == "row" else "all rows of a person"
        warn(
            f"delta={budget.delta:g} is at least 1/n = {1 / units.size:g}: a mechanism could "
            f"publish {whole} and keep such a promise. Use a delta well below 1/n."
        )
    if process.ledger is None and multiprocessing.parent_process() is not None:
        warn(
            "This fit runs in a worker process, and no ledger counts it. The fits of a search "
            "add up: pass ledger=Ledger('visits.sqlite').open('visits').",
            PrivacyLeakWarning,
        )
    if process.random_state is not None:
        warn(
            "random_state fixes the noise, so this fit protects nobody: test mode, not "
            "private. Leave random_state=None for real data.",
            PrivacyLeakWarning,
        )
    return outside


def warn_of_callers(kind: type, *, grouped: bool) -> tuple[str, ...]:
    """Warn of steps fitted to the exact rows before the running fit, and of groups that were lost.

    A pipeline does not tell its last step about the others. A search of scikit-learn gives groups
    to its splitter alone, unless metadata routing is enabled: a fit that is not ``grouped`` then
    protects single rows. So the callers are inspected. Returns what a guarantee has to say: the
    steps that it does not cover. A schema that names units is refused if the fit, of an estimator
    of this ``kind``, has no groups.
    """
    frame: FrameType | None = sys._getframe(1)
    before_last: Any = None  # the pipeline that is at a step before its last
    steps: list[Any] = []
    lost = False
    for _ in range(_FRAMES):
        if frame is None:
            break
        names = frame.f_locals
        name = frame.f_code.co_name
        owner = names.get("self")
        if isinstance(owner, Pipeline) and name == "_fit":
            before_last = owner
        elif isinstance(owner, Pipeline) and name.startswith("fit"):
            if not grouped:
                _refuse_units(owner, kind)
            steps += [] if owner is before_last else leaky_steps(owner)
        if frame.f_globals.get("__name__", "").startswith(_SEARCHES):
            routed = getattr(names.get("routed_params"), "splitter", None)
            split = getattr(routed, "split", None) or {}
            lost |= names.get("groups") is not None or split.get("groups") is not None
        frame = frame.f_back
    if lost and not grouped:
        warn(_LOST_GROUPS, PrivacyLeakWarning)
    found = _warn_of_steps(steps) if steps else ()
    return (*found, GROUPS_LOST) if lost and not grouped else found


def _warn_of_steps(steps: Sequence[Any]) -> tuple[str, ...]:
    """Warn of steps that learned outside the budget; return what a guarantee has to say of them."""
    kinds = dict.fromkeys(type(step) for step in steps)
    for leaky in kinds:
        where = leaky.__module__
        instead = next((text for key, text in _INSTEAD.items() if where.startswith(key)), None)
        warn(
            f"{leaky.__name__} in this pipeline was fitted to the exact rows, outside the budget: "
            "the guarantee does not cover what it learned, and predictions show it. Instead: "
            f"{instead or _OTHERWISE}.",
            PrivacyLeakWarning,
        )
    return tuple(learned_outside(leaky.__name__) for leaky in kinds)


def _refuse_units(pipeline: Pipeline, kind: type) -> None:
    """Refuse a fit without groups if a schema in its pipeline says whose row each row is.

    The fit would promise something to single rows, silently. Nothing is spent by then.
    """
    for step in steps_of(pipeline):
        unit = getattr(getattr(step, "schema", None), "unit", None)
        if unit is None:
            continue
        name = next((name for name, each in pipeline.steps if type(each) is kind), None)
        keyword = f"{name}__groups"
        routing = ""
        if get_config().get("enable_metadata_routing"):
            keyword = "groups"
        elif name is None:
            keyword = "groups"
            routing = "call sklearn.set_config(enable_metadata_routing=True) and "
        raise PrivacyError(
            f"The schema in this pipeline names the unit {unit!r}, but {kind.__name__} got no "
            "groups: its promise would be for one row. Pass the ids of all rows: "
            f"{routing}pipeline.fit(table, y, {keyword}=table[{unit!r}]); or use X, y, groups = "
            "schema.open(table). If no unit has several rows, leave it out of the schema."
        )
