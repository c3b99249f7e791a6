"""A small prediction service over HTTP, with the standard library alone.

    python service.py models/model.json --port 8080

    curl localhost:8080/predict -d '{"rows": [{"age": 71, "stay": 3}]}'
    {"predictions": ["yes"], "probabilities": [{"no": 0.31, "yes": 0.69}]}

``GET /guarantee`` states what the model promises, ``GET /health`` is for a supervisor. Predictions
are post-processing of a private model and cost no budget, but each reveals something about its own
row: protect requests and answers like the rows. So requests are not logged, and an error names a
column, never a cell. A client has a time limit for its whole request, so that slow ones cannot hold
the service up. For the open network, put a server with TLS and authentication in front.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import socket
import sys
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from discreet import TableError, load

MOST_BYTES = 2**20
MOST_ROWS = 1_000
"""Limits of one request."""

MOST_SECONDS = 10.0
"""Time for a client to send all of its request, and again to read the answer."""

MOST_CLIENTS = 256
"""Clients that are served at the same time, each by a thread; others wait in the queue."""

QUEUE = 512
"""Connections that the system lets wait; it may reset others."""


class Refusal(Exception):
    """A request that is not answered, with its status and the reason."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Model:
    """A saved model of a table: a table in, predictions out."""

    def __init__(self, path: Path) -> None:
        self.estimator = load(path)
        if self.estimator.design_ is None:
            raise SystemExit(f"{path} takes rows of numbers; fit a model to a table with names.")
        self.columns = set(self.estimator.design_.schema.used)

    def answer(self, request: Any) -> dict[str, Any]:
        """Return the predictions for ``{"rows": [{column: value}]}``."""
        rows = request.get("rows") if isinstance(request, dict) else None
        if not isinstance(rows, list) or not rows or not all(isinstance(r, dict) for r in rows):
            raise Refusal(HTTPStatus.BAD_REQUEST, 'send {"rows": [{"column": value, …}, …]}.')
        if len(rows) > MOST_ROWS:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"at most {MOST_ROWS:,} rows per request.")
        for row in rows:
            if absent := sorted(self.columns - row.keys()):
                raise Refusal(HTTPStatus.BAD_REQUEST, f"a row lacks the column {absent[0]!r}.")
        table = {name: [_text(row[name]) for row in rows] for name in sorted(self.columns)}
        try:
            answer: dict[str, Any] = {"predictions": self.estimator.predict(table).tolist()}
        except TableError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from None
        if hasattr(self.estimator, "predict_proba"):
            labels = [str(label) for label in self.estimator.classes_]
            chances = self.estimator.predict_proba(table).tolist()
            answer["probabilities"] = [dict(zip(labels, row, strict=True)) for row in chances]
        return answer


def _text(value: Any) -> str:
    """Return a JSON value as a cell of a table; null is a missing cell."""
    if value is None:
        return ""
    return "true" if value is True else "false" if value is False else str(value)


class TimedReader(io.RawIOBase):
    """The bytes that a client sends, all of them within one time limit."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._end = time.monotonic() + MOST_SECONDS

    def readable(self) -> bool:
        """Return True: this is a stream to read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what has come, and wait for it until the time is over."""
        self._connection.settimeout(max(self._end - time.monotonic(), 0.001))
        count = self._connection.recv_into(buffer)
        self._connection.settimeout(MOST_SECONDS)  # for the answer
        return count


class Handler(BaseHTTPRequestHandler):
    """Answers requests; nothing of them is logged."""

    model: Model
    server_version, sys_version = "discreet", ""

    def setup(self) -> None:
        """Read the request within a time limit."""
        super().setup()
        self.rfile = io.BufferedReader(TimedReader(self.connection))

    def do_GET(self) -> None:
        """Answer /health and /guarantee."""
        if self.path == "/health":
            self._send(HTTPStatus.OK, {"status": "ready"})
        elif self.path == "/guarantee":
            self._send(HTTPStatus.OK, self.model.estimator.guarantee_.to_dict())
        else:
            self._send(HTTPStatus.NOT_FOUND, {"error": "try POST /predict."})

    def do_POST(self) -> None:
        """Answer /predict."""
        try:
            self._send(HTTPStatus.OK, self.model.answer(self._read()))
        except Refusal as refusal:
            self._send(refusal.status, {"error": str(refusal)})
            self._drain()
        except OSError:  # the client is gone, or too slow
            self.close_connection = True
        except Exception:  # the text of an unknown error could show a cell
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "the request failed."})

    def _read(self) -> Any:
        if self.path != "/predict":
            raise Refusal(HTTPStatus.NOT_FOUND, "try POST /predict.")
        length = self.headers.get("Content-Length")
        if length is None:
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length.")
        if not re.fullmatch("[0-9]+", length):
            raise Refusal(HTTPStatus.BAD_REQUEST, "Content-Length is not a number.")
        digits = length.lstrip("0") or "0"
        if len(digits) > len(str(MOST_BYTES)) or int(digits) > MOST_BYTES:
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MOST_BYTES:,} bytes per request."
            )
        try:
            return json.loads(self.rfile.read(int(digits)))
        except (ValueError, RecursionError):  # text that is not JSON, or nested too deeply
            raise Refusal(HTTPStatus.BAD_REQUEST, "the request is not JSON.") from None

    def _drain(self) -> None:
        """Read on after a refusal, so that the client hears it: closing at once would reset it."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            for _ in range(4 * MOST_BYTES // 2**16):
                if not self.rfile.read1(2**16):
                    break

    def _send(self, status: HTTPStatus, answer: dict[str, Any]) -> None:
        body = json.dumps(answer, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: Any) -> None:
        """Log nothing: addresses and paths are of the people who ask."""


class Server(ThreadingHTTPServer):
    """A thread per client, for a limited number of clients."""

    request_queue_size = QUEUE

    def __init__(self, *arguments: Any) -> None:
        self._places = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Wait for a place, which the time limit of requests makes free, and start a thread."""
        self._places.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Name an unknown failure: no address, and no text, which could show a cell."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # that is a client who has gone
            print(f"A request failed: {type(error).__name__}.", file=sys.stderr)


def server(path: Path, host: str = "127.0.0.1", port: int = 8080) -> Server:
    """Return a server of a saved model, which is not started yet."""
    handler = type("ModelHandler", (Handler,), {"model": Model(path)})
    return Server((host, port), handler)


def main() -> None:
    """Serve until the process is stopped."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path, help="model file (discreet.save, discreet fit)")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 in a container")
    parser.add_argument("--port", type=int, default=8080)
    asked = parser.parse_args()
    with server(asked.model, asked.host, asked.port) as running:
        print(f"Serving {asked.model} on http://{asked.host}:{running.server_port}")
        running.serve_forever()


if __name__ == "__main__":
    main()
