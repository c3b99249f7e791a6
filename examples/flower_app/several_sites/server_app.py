"""The coordinator, which has no rows: it fits a model over the nodes of the run and writes it."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

import discreet
from discreet.sites.flower import federation_of

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Fit the model and print what it promises, and what was sent."""
    chosen = context.run_config
    federation = federation_of(
        grid,
        sites=chosen["sites"],
        trust=chosen["trust"],
        colluding=chosen["colluding"],
    )
    model = discreet.fit(
        None,
        federation,
        schema=federation.schema,
        epsilon=chosen["epsilon"],
        delta=chosen["delta"],
    )
    model.save(chosen["output"])
    print(model.guarantee)
    print(federation.traffic)
