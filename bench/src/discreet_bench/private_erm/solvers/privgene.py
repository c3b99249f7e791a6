"""A genetic algorithm in which a private choice decides which of the candidates breeds."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """A genetic algorithm in which a private choice decides which of the candidates breeds."""

    name = "privgene"
    parameters = parameters_of("privgene")
