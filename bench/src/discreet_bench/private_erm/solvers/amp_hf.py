"""As amp, without hyper-parameters: the split of the budget follows from ε and the dimension."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """As amp, without hyper-parameters: ε and the dimension decide how the budget is split."""

    name = "amp-hf"
    parameters = parameters_of("amp-hf")
