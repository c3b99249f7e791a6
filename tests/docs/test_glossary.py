"""The glossary: terms of pages, messages and docstrings are collected, and each has its entry.

Three nets: nouns of the field from a reviewed list; every abbreviation and Greek letter; every
phrase with a head such as "mechanism". What they collect must be in the glossary, or on a reviewed
list of words that readers know.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = [
    *(path for path in sorted((ROOT / "docs").glob("*.md")) if path != GLOSSARY),
    *sorted((ROOT / "docs" / "tutorials").glob("*.py")),
    ROOT / "README.md",
    ROOT / "SECURITY.md",
]
SOURCES = [
    path
    for path in sorted((ROOT / "src" / "discreet").rglob("*.py"))
    if path.stem not in ("store", "sqlite", "postgres")  # SQL
]


def words(text):
    """Return the words of a text."""
    return set(text.split())


# Words of the field that need a definition, as texts write them, and the entry with it.
NOUNS = {
    "accountant": "accountant", "add/remove": "add/remove", "affine map": "affine map",
    "amplification": "amplification by sampling", "attacker": "attacker", "AUC": "auc",
    "audit": "audit", "baseline": "baseline", "block": "block", "budget": "budget",
    "calibration": "calibration", "canar(?:y|ies)": "canary", "certificate": "certificate",
    "class.weight": "class weight", "clip(?:s|ped|ping)?": "clipping",
    "compos(?:e|ition)": "composition", "confidence interval": "confidence interval",
    "confusion matri": "confusion matrix", "coverage": "coverage", "CSR": "csr",
    "curator": "curator", "δ": "delta, δ", "differential privacy": "differential privacy",
    "DP-SGD": "dp-sgd", "ε": "epsilon, ε", "exponential mechanism": "exponential mechanism",
    "exposure": "exposure", "false-positive rate": "false-positive rate", "filter": "filter",
    "Fourier": "kernel features", "Gaussian DP": "gaussian dp", "gradient": "gradient",
    "group privacy": "group privacy", "guarantee": "guarantee", "Hessian": "hessian",
    "hinge": "hinge loss", "Huber": "huber loss", "intercept": "intercept",
    "Laplace": "laplace noise", "ledger": "ledger", "log loss": "log loss",
    "mechanism": "mechanism", "membership inference": "membership inference", "μ": "mu, μ",
    "neighbour(?:s|ing)": "neighbouring data sets", "noise multiplier": "noise multiplier",
    "norm": "norm", "objective perturbation": "objective perturbation",
    "odds ratio": "odds ratio", "one-hot": "one-hot", "one-vs-rest": "softmax",
    "out-of-core": "out-of-core", "output perturbation": "output perturbation",
    "penalty": "penalty", "pinball": "quantile", "post-processing": "post-processing",
    "preparation": "preparation", "privacy card": "privacy card", "privacy loss": "privacy loss",
    "profile": "privacy profile", "privacy unit": "privacy unit",
    "private selection": "private selection", "public": "public", "pure": "pure",
    "p-value": "p-value", "quantile": "quantile", "relation": "relation", "release": "release",
    "Rényi": "rényi dp", "replace": "replace-one", "ρ": "rho, ρ", "ROC": "roc curve",
    "schema": "schema", "linear predictor": "score", "sensitivity": "sensitivity",
    "softmax": "softmax", "solver": "solver", "spline": "spline",
    "standard error": "standard error", "SVM|support vector": "hinge loss",
    "test mode": "test mode", "trace": "trace", "trade-off": "trade-off curve",
    "true-positive rate": "true-positive rate", "trust boundary": "trust boundary",
    "tuning": "tuning", "whiten": "whitening", "zCDP": "zcdp",
}  # fmt: skip

# Abbreviations that readers know, or that are names: of formats, units, conferences, methods.
KNOWN = words(
    """
    ASCII BLAS CPU CSS CSV CycloneDX DuckDB PyPI GB GIL HTML HTTP ISO JSON MB NUL OSError PB PDF PEM
    NFC PostgreSQL QR SHA SIGTERM SP SQL SQLite SVG TB TLS TOML UCI UI US UTC UTF XML YAML NIST
    IPUMS
    CCS COLT FOCS GlobalSIP ICLR ICML IEEE IJCAI JMLR KDD NIPS SIGMOD TK
    AGD AMP BFGS EBM FW GD LASSO PSGD RRPSGD SCPSGD MNIST BANK MA GDP ERM II III
    GridSearchCV LinearSVC RBFSampler
    """
)
SHOUTED = words(  # words of warnings and of usage texts that are written in capitals
    """
    AND COLUMN CONTRIBUTING DD EXACT EXTRA FIELD FILE FILL FROM HOST IN INFO LABEL MM MODE NAME NO
    NOT NUMBER ONLY PATH PORT PRIVATE REFUTED SECURITY TEST TEXT VERIFIED YYYY
    """
)
GREEK = {"β": "of the proofs", "γ": "of the proofs", "π": "the number"}
LOCAL = {"τ", "λ", "σ", "φ"}  # explained where they are used: noise, eigenvalue, deviation, loss

HEADS = (
    "privacy|mechanism|perturbation|composition|accountant|accounting|amplification|sensitivity|"
    "divergence|inference"
)
ORDINARY = words(  # words before a head that make no term of it
    """
    a about all an and any at by claims does dp each for from gdp has if ideal in is its jax known
    leave rows
    more much no not of on one or other our own promised proven published scale sound such than
    that the their there these this through to two what where which with without independent
    planned calibrated no exact whose through same under adds case add lose loses range pure local
    secret moments tilted additive advanced another as first l2norm less minima poisson
    sampledgaussian true
    """
)


def prose(text):
    """Return Markdown without code, literals and addresses."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^    .*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`+[^`]*`+", "", text))


def text_of(path):
    """Return what a reader sees of a page, or of the docstrings and messages of a module."""
    source = path.read_text("utf-8")
    if path.suffix == ".md":
        return prose(source)
    if "tutorials" in path.parts:
        comments = re.findall(r"^# ?(.*)$", source, re.MULTILINE)
        return prose("\n".join([ast.get_docstring(ast.parse(source)), *comments]))
    nodes = ast.walk(ast.parse(source))
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return "\n".join(re.sub(r"`+[^`]*`+", "", text) for text in texts if " " in text)


@cache
def texts():
    """Return what a reader sees of each page and module, by its path."""
    return {path.relative_to(ROOT).as_posix(): text_of(path) for path in [*PAGES, *SOURCES]}


@cache
def everything(*, proofs=False):
    """Return all of these texts, and those of proofs if asked for."""
    pages = (ROOT / "docs" / "proofs").glob("*.md") if proofs else ()
    return "\n".join([*texts().values(), *(prose(page.read_text("utf-8")) for page in pages)])


DEFINED = prose(GLOSSARY.read_text("utf-8"))
HEADINGS = re.findall(r"^## (.+)$", DEFINED, re.MULTILINE)


def places(pattern):
    """Return the first texts that a pattern occurs in."""
    return [name for name, text in texts().items() if re.search(pattern, text)][:3]


def test_entries_are_sorted_and_short():
    assert sorted(HEADINGS, key=lambda text: text.lower().replace("é", "e")) == HEADINGS
    for entry in DEFINED.split("\n## ")[1:]:
        assert 2 <= len(entry.strip().splitlines()) <= 8, entry.splitlines()[0]


def test_every_noun_that_needs_a_definition_has_an_entry():
    entries = {heading.lower() for heading in HEADINGS}
    assert {term: name for term, name in NOUNS.items() if name not in entries} == {}


@pytest.mark.parametrize("term", NOUNS)
def test_the_list_of_nouns_has_no_word_that_nobody_uses(term):
    assert re.search(term, everything(proofs=True), re.IGNORECASE)


def test_every_entry_is_a_word_that_is_used():
    for heading in HEADINGS:
        first = re.escape(heading.split(",")[0].split()[0])
        assert re.search(first, everything(proofs=True), re.IGNORECASE), heading


def test_every_abbreviation_is_defined_or_known():
    found = set(re.findall(r"\b[A-Za-z]*[A-Z]{2,}[A-Za-z]*\b", everything())) - KNOWN - SHOUTED
    missing = {word: places(rf"\b{word}\b") for word in found if word not in DEFINED}
    assert missing == {}, "define it in docs/glossary.md, or list it as known"


def test_every_greek_letter_is_defined():
    found = set(re.findall("[\u0370-\u03ff]", everything())) - set(GREEK) - LOCAL
    pages = "\n".join(text for name, text in texts().items() if not name.startswith("src/"))
    missing = {letter for letter in found if letter in pages and letter not in DEFINED}
    assert missing == set()


def test_every_phrase_of_the_field_is_defined():
    flat = re.sub(r"\s+", " ", everything())
    defined = re.sub(r"\s+", " ", DEFINED).lower()
    found = {
        f"{first} {head}".lower()
        for first, head in re.findall(rf"\b([A-Za-zé]\w+)[ -]({HEADS})\b", flat)
        if first.lower() not in ORDINARY
    }
    missing = {p: places(p.replace(" ", r"[\s-]+")) for p in found if p not in defined}
    assert missing == {}, "define it in docs/glossary.md, or list its first word as ordinary"
