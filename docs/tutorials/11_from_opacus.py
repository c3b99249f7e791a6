"""
Moving from Opacus
==================

Opacus trains any PyTorch module by DP-SGD, noisy gradients of random batches. If yours is one
linear layer, the default here needs no learning rate, batch size or number of epochs;
:doc:`/solvers` compares the accuracy. The names on the left are those of Opacus 1.6 and PyTorch.

What each parameter becomes
---------------------------

===========================================  ====================================================
Opacus, PyTorch                              discreet
===========================================  ====================================================
``nn.Linear(d, 1)``, ``BCEWithLogitsLoss``   ``LogisticRegression``
``nn.Linear(d, k)``, ``CrossEntropyLoss``    ``LogisticRegression`` with k ``classes``
``nn.Linear(d, 1)``, ``MSELoss``             ``LinearRegression(target_bounds=…)``
``target_epsilon``, ``target_delta``         ``epsilon``, ``delta``
``noise_multiplier``                         (none): it follows from the budget
``max_grad_norm``                            ``SGD(gradient_clip=…)``; the default sets it
``batch_size`` of the loader                 ``SGD(batch_size=…)``; the default uses all rows
``epochs``                                   ``SGD(iterations=epochs * n / batch_size)``
``lr``                                       ``SGD(step_size=…)``
``momentum``                                 ``GD(momentum=…)``
``weight_decay``                             ``alpha``
``poisson_sampling=True``                    always, for ``SGD``
``secure_mode=True``                         always: exact noise from the system's random bits
``noise_generator``                          ``random_state``, for tests only
``accountant="prv"``                         (none): each solver brings its own
``get_epsilon(delta)``                       ``guarantee_.epsilon``, ``guarantee_.recompute()``
``BatchMemoryManager``                       (none): no gradient per row is stored
``clipping``, ``grad_sample_mode``           (none)
===========================================  ====================================================
"""

import numpy as np

rng = np.random.default_rng(6)
n, d = 20_000, 30
weights = rng.normal(size=d)


def rows(n):
    """Return rows of different scales and their labels."""
    X = rng.normal(size=(n, d))
    y = (X @ weights / 2 + rng.logistic(size=n) > 0).astype(int)
    return X * np.linspace(0.2, 3.0, d), y


X, y = rows(n)
X_new, y_new = rows(10_000)

# %%
# The same method
# ---------------
# With Opacus, the training is about this::
#
#     layer = nn.Linear(30, 1)
#     engine = PrivacyEngine(secure_mode=True)
#     module, optimizer, loader = engine.make_private_with_epsilon(
#         module=layer,
#         optimizer=torch.optim.SGD(layer.parameters(), lr=0.5),
#         data_loader=DataLoader(rows, batch_size=500),
#         target_epsilon=1.0, target_delta=1e-6, epochs=10, max_grad_norm=1.0,
#     )
#     for _ in range(10):
#         for features, target in loader: ...
#
# and here it is a solver object. The noise is computed from the budget:

from discreet import LogisticRegression
from discreet.solvers import SGD

epochs, batch = 10, 500
sgd = SGD(batch_size=batch, iterations=epochs * n // batch, step_size=0.5, gradient_clip=1.0)
model = LogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1], solver=sgd, alpha=0.0)
print(f"accuracy {model.fit(X, y).score(X_new, y_new):.3f}")
print(model.guarantee_.mechanisms)

# %%
# That accuracy depends on three numbers that somebody has to choose, and every try on the private
# rows costs budget. The default chooses from public numbers (rows, columns, budget), scales the
# rows privately and measures gradients of all rows:

default = LogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1])
print(f"accuracy {default.fit(X, y).score(X_new, y_new):.3f} with solver {default.solver_!r}")

# %%
# The same for several budgets:

import matplotlib.pyplot as plt

tries = [0.1, 0.3, 1.0, 3.0]
solvers = {"default": "auto", "SGD as above": sgd}
figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
for (name, solver), marker in zip(solvers.items(), "os", strict=True):
    curve = []
    for epsilon in tries:
        model = LogisticRegression(epsilon=epsilon, delta=1e-6, classes=[0, 1], solver=solver)
        curve.append(np.mean([model.fit(X, y).score(X_new, y_new) for _ in range(2)]))
    axes.plot(tries, curve, marker=marker, label=name)
axes.set(xscale="log", xlabel="ε", ylabel="accuracy on new rows")
axes.set_xticks(tries, [f"{epsilon:g}" for epsilon in tries])
axes.minorticks_off()
axes.set_title("DP-SGD with settings chosen by hand, and the default")
axes.legend()
plt.show()

# %%
# Trainings that stay with Opacus
# -------------------------------
# Deep networks stay where they are, and can be counted in the same ledger: as an event of
# dp-accounting with the sampling rate, noise multiplier and number of steps that Opacus used, at a
# δ of at most a tenth of the limit's. Such an event is known by its (ε, δ) only, which composes
# worse with other fits than Gaussian noise does.

from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

from discreet import Budget, Ledger

people = Ledger().create("people", limit=Budget(5.0, 1e-6, "add_remove"))
step = PoissonSampledDpEvent(batch / n, GaussianDpEvent(noise_multiplier=4.0))
people.add(event=SelfComposedDpEvent(step, 400), delta=1e-8)
print(people)
