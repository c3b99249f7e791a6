"""``discreet site``: a table that takes part in fits over several sites; ``discreet federate``."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer import Argument, Option

from discreet.cli import options, state
from discreet.cli.exits import CommandError
from discreet.cli.screen import Screen, name_of
from discreet.core import Relation

app = typer.Typer(
    help="Take part in fits over several sites that do not pool their rows.",
    no_args_is_help=True,
)

CertificateFile = Annotated[
    Path, Option(help="Certificate of this party, NAME.crt, which the others were given.")
]
KeyFile = Annotated[Path, Option(help="Private key of this party, NAME.key.")]


@app.command()
def key(
    name: Annotated[str, Argument(metavar="NAME", help="Name by which the others know the party.")],
    folder: Annotated[Path, Option(help="Folder to write NAME.key and NAME.crt to.")] = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Make the key and the certificate of a site or a coordinator.

    Give NAME.crt to the other parties, by a way that they trust. NAME.key stays where it is.

    Example: discreet site key north --folder keys
    """
    from discreet.sites.https import make_identity

    private, public = make_identity(name, folder)
    record = {"key": os.fspath(private), "certificate": os.fspath(public)}
    text = f"Private key: {private}. Certificate for the other parties: {public}."
    Screen(as_json=as_json).result(record, text)


@app.command()
def serve(
    files: options.DataFiles,
    schema: Annotated[Path, Option(help="Schema file; all sites have the same.")],
    key: KeyFile,
    certificate: CertificateFile,
    coordinator: Annotated[
        Path | None, Option(help="Certificate of the coordinator, who connects over TLS.")
    ] = None,
    peer: Annotated[
        list[Path] | None,
        Option(help="Certificate of another site; give the option once per site."),
    ] = None,
    listen: Annotated[str, Option(metavar="HOST:PORT", help="Address to listen at.")] = (
        "127.0.0.1:8441"
    ),
    socket: Annotated[
        Path | None,
        Option(help="Socket to listen at, for an engine at this machine, such as Flower."),
    ] = None,
    accept: Annotated[
        list[str] | None,
        Option(
            help="Trust model under which the site takes part: secure, local or aggregator; give "
            "the option once per model. By default secure and local."
        ),
    ] = None,
    least_colluding: Annotated[
        int, Option(help="Least number of colluding sites that a fit must protect against.")
    ] = 0,
    target: Annotated[
        str | None, Option(help="Column to predict, if the schema has no target.")
    ] = None,
    unit: options.Unit = None,
    ledger: options.LedgerPlace = None,
    dataset: options.DatasetName = None,
    record: Annotated[
        Path | None,
        Option(help="File to keep the trust section of the privacy card in, after each fit."),
    ] = None,
    memory: options.Memory = None,
    temp_folder: options.Folder = None,
) -> None:
    """Serve a table to fits over several sites, until it is interrupted.

    The table stays here. Each fit is charged to the ledger before anything is read, and what a
    coordinator asks is charged to a filter of this site again.

    Example: discreet site serve visits.csv --schema visits.toml --ledger north.sqlite
    --key north.key --certificate north.crt --coordinator coordinator.crt --peer south.crt
    """
    from discreet import tables
    from discreet.sites import Policy, Site
    from discreet.sites.https import Certificate, Server, as_address, read_identity
    from discreet.sites.sockets import SocketServer
    from discreet.table_model import with_unit

    if (coordinator is None) == (socket is None):
        raise CommandError("pass --coordinator CERTIFICATE, or --socket PATH for an engine.")
    screen = Screen()
    declared = tables.Schema.read(schema)
    declared = declared if target is None else declared.with_target(target)
    declared = declared if unit is None else with_unit(declared, unit)
    if declared.target is None:
        raise CommandError("the schema names no target: pass --target COLUMN.")
    address = as_address(listen)
    own = Certificate.read(certificate)
    others = [Certificate.read(each) for each in peer or []]
    policy = Policy(
        accepts=tuple(accept or ("secure", "local")),
        least_colluding=least_colluding,
        peers={each.name: each.public for each in others},
        identity=read_identity(key),
    )
    charged = state.find_dataset(ledger, dataset, files)
    with screen.bar(f"reading {name_of(files)}") as bar:
        encoded = tables.read(
            files, declared, memory=memory, folder=temp_folder, progress=lambda share: bar(share)
        )
    site = Site(own.name, *encoded, schema=declared, ledger=charged, policy=policy)
    if record is not None:
        site.watch(lambda each: _keep(each, record))
    server: Any
    if coordinator is None:
        server, place = SocketServer(site, cast(Path, socket)), str(socket)
    else:
        trusted = Certificate.read(coordinator)
        server = Server(site, address, own=own, key=key, coordinator=trusted)
        place = ":".join(map(str, server.server_address[:2]))
    screen.note(f"Site {own.name} serves {site.size:,} {site.unit}s at {place}.")
    _run(server)
    screen.note(f"Site {own.name} has stopped.")


def _run(server: Any) -> None:
    """Serve until Ctrl-C or SIGTERM: a stop is how a server ends, and no failure."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    stopped.wait()
    server.shutdown()
    server.server_close()


def _keep(site: Any, path: Path) -> None:
    """Write the trust section of the privacy card."""
    from discreet.files import replacing
    from discreet.sites.report import trust_section

    with replacing(path) as stream:
        stream.write(trust_section(site.name, site.record))


def federate(
    sites: Annotated[
        Path, Option(help="Sites file: the coordinator's key, and each site's address.")
    ],
    epsilon: Annotated[float, Option(help="ε, the privacy budget: smaller is more private.")],
    delta: options.Delta,
    output: Annotated[Path, Option("--output", "-o", help="Model file to write.")],
    target: Annotated[
        str | None, Option(help="Column to predict; it must be the target of the sites' schema.")
    ] = None,
    loss: Annotated[str | None, Option(help="As in discreet fit.")] = None,
    relation: options.RelationName = Relation.ADD_REMOVE,
    inference: Annotated[
        bool, Option("--inference", help="Spend most of the budget on intervals.")
    ] = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit a private model to the tables of several sites, and write it to a file.

    The coordinator has no rows. Every site checks the terms, charges its own ledger, and answers
    questions; docs/sites.md says who sees what.

    Example: discreet federate --sites sites.toml --target readmitted --epsilon 1 --delta 1e-6
    -o model.json
    """
    import discreet
    from discreet.sites.https import read_federation

    screen = Screen(as_json=as_json)
    state.check_output(output, force, sites)
    federation = read_federation(sites)
    schema = federation.schema
    if schema is None or schema.target is None:
        raise CommandError("the sites have no schema with a target.")
    if target not in (None, schema.target.column):
        raise CommandError(
            f"--target {target}: the sites' schema has the target {schema.target.column!r}."
        )
    with screen.bar("fitting (share of the budget spent)") as bar:
        model = discreet.fit(
            None,
            federation,
            schema=schema,
            epsilon=epsilon,
            delta=delta,
            relation=relation,
            loss=loss,
            inference=inference,
            progress=lambda _, share: bar(share),
        )
    state.keep(model.save, output, "the model")
    traffic = federation.traffic
    report = model.report
    screen.note(report.size)
    note = (
        f"{len(federation.names)} sites, trust model {federation.model.name}: "
        f"{traffic.questions} questions in {traffic.rounds} rounds, "
        f"{traffic.sent:,} bytes sent and {traffic.received:,} received."
    )
    record = {"model": os.fspath(output), **report.record, "traffic": vars(traffic)}
    text = (
        f"{report.text}\n\n{note}\n\nModel: {output}. Its privacy card: discreet explain {output}"
    )
    screen.result(record, text, done=f"The model was written to {output}")
