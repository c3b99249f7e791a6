"""An experiment of one file: two methods at small budgets.

discreet bench run bench/examples/small_budgets.py --quick
"""

from discreet_bench.experiment import Claim, Experiment, Pick, Plan, objective

PLAN = Plan(
    data={"plane": {"rows": [3000]}},
    objective=objective((0.05, 0.2), 1e-6, relation=("add_remove",)),
    solvers={"auto": {}, "gd": {}, "majority": {}},
    repeats=2,
)

experiment = Experiment(
    name="small-budgets",
    title="Two methods at small budgets",
    source="an example",
    question="Is the default better than noisy descent where little can be learned?",
    plans=(PLAN,),
    quick=(PLAN,),
    paper=(PLAN,),
    claims=(Claim("The default is more accurate than gd.", Pick("auto"), (Pick("gd"),)),),
    notes=("An example.",),
)
