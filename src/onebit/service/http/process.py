"""The process of `onebit serve`: checks, socket, signals and logging."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import json
import logging
import math
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import uvicorn

from onebit.errors import InputError
from onebit.service.core.threads import is_work_running
from onebit.service.http.app import App
from onebit.service.http.guard import KEEP_ALIVE_S, LARGEST_HEAD, Connections, build_protocol
from onebit.service.service import Service
from onebit.service.settings import Settings
from onebit.service.store.base import Store, store_at
from onebit.service.store.clock import rfc3339
from onebit.service.tokens import Tokens

try:
    from uvloop import new_event_loop
except ModuleNotFoundError:  # it is not available on every system
    from asyncio import new_event_loop  # type: ignore[assignment]

LOG = logging.getLogger("onebit.service")
BACKLOG = 2048  # connections waiting to be accepted
MAX_FILES = 65_536  # open connections and files, if the system allows it
# New objects after which Python collects cyclic garbage. Requests create few cycles, but every list of decisions reaches
# Python's default of 700 objects. With this value a list of 100 takes a fifth less processor time, and a single decision
# a tenth less (`python -m benchmarks serve`).
GARBAGE_THRESHOLD = 50_000
SIGNALS = (signal.SIGTERM, signal.SIGINT)  # signals that end the service
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}


def serve(settings: Settings) -> int:
    """Run a service until a signal ends it, and return the exit code."""
    started = time.perf_counter()
    log_format = settings.log_format or ("text" if sys.stderr.isatty() else "json")
    with _log_to_stderr(log_format):
        store, tokens = _open_store(settings)
        with _bind_socket(settings.host, settings.port) as listener:
            if tokens.open and not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
                option = f"--token-file {settings.tokens}" if settings.log is None else "--log ADDRESS"
                raise InputError(
                    f"there are no tokens, so only this machine may use the service, but --host {settings.host} would let others in: "
                    f"create a token with `onebit token create --scope admin {option}`"
                )
            os.umask(0o077)  # other users of this machine cannot read what this process writes: users' data
            _allow_many_files()
            gc.set_threshold(GARBAGE_THRESHOLD)
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                code = runner.run(_serve(settings, store, tokens, listener, started))
    if is_work_running():  # otherwise Python would wait for the compiler, or crash
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _open_store(settings: Settings) -> tuple[Store, Tokens]:
    """Check the folder and the token file; return the store and its tokens."""
    if settings.token_file is not None and not settings.token_file.exists():
        raise InputError(f"--token-file {settings.token_file} does not exist: `onebit token create` creates it")
    if settings.log is None and settings.data.exists() and not settings.data.is_dir():
        raise InputError(f"--data {settings.data} is a file, but must be a folder, or the name of a new one")
    if settings.log is None and settings.closed.exists() and not settings.tokens.exists():
        raise InputError(
            f"the token file {settings.tokens} of {settings.data} is missing: restore it, create a new token, or "
            f"remove {settings.closed} to let everybody on this machine in"
        )
    store = store_at(settings.where)
    tokens = store.tokens(settings)
    tokens.listed()  # report a damaged file now, and not at the first request
    return store, tokens


async def _serve(settings: Settings, store: Store, tokens: Tokens, listener: socket.socket, started: float) -> int:
    LOG.info(f"starting on {store.name}", extra={"event": "starting", "folder": store.name})
    service = Service(settings, compiles_apart=True, store=store)
    app = App(service, tokens)
    config = uvicorn.Config(
        app,
        **_connection_settings(app.connections),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.ERROR,  # anybody who can connect can cause warnings
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=math.ceil(settings.drain_s),
    )
    server = uvicorn.Server(config)
    starting = asyncio.ensure_future(service.start())

    def request_stop() -> None:
        starting.cancel()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in SIGNALS:  # uvicorn raises a signal once more when it has ended, which must not end the process yet
        loop.add_signal_handler(number, request_stop)
    try:
        await starting
    except asyncio.CancelledError:
        LOG.info("stopped before it was ready", extra={"event": "ended"})
        return 0
    try:
        listener.listen(BACKLOG)
        _log_addresses(store, listener, tokens.open, service.task_names(), started)
        await server.serve(sockets=[listener])
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        await service.stop()
    LOG.info("ended", extra={"event": "ended"})
    return 0


def _connection_settings(connections: Connections) -> dict[str, Any]:
    """Return uvicorn's settings that limit connections: the guard, or uvicorn's own limits without it."""
    try:
        return {"http": build_protocol(connections)}
    except ImportError as error:
        LOG.warning(
            f"the limits on connections do not fit uvicorn {uvicorn.__version__} ({error}): slow request heads and unread replies do not time out, "
            f"the limit on the number of connections is approximate, and invalid HTTP is refused in plain text",
            extra={"event": "uvicorn-unknown"},
        )
        # uvicorn answers connections beyond the limit with 503.
        return {"http": "h11", "h11_max_incomplete_event_size": LARGEST_HEAD, "limit_concurrency": connections.most + 1}


def _log_addresses(store: Store, listener: socket.socket, is_open: bool, tasks: list[str], started: float) -> None:
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    seconds = round(time.perf_counter() - started, 3)
    count = f"{len(tasks)} task{'' if len(tasks) == 1 else 's'}"
    details = {"address": address, "folder": store.name, "tasks": tasks, "open": is_open, "seconds": seconds}
    LOG.info(
        f"listening on {address} with {count} of {store.name}, after {seconds} s",
        extra={"event": "listening", **details},
    )
    LOG.info(
        f"to play, open {address}/play/digits in a browser; all tasks are at {address}/",
        extra={"event": "pages", "play": f"{address}/play/digits"},
    )
    if is_open:
        LOG.warning(
            "there are no tokens: everybody on this machine may do everything; create one with `onebit token create`",
            extra={"event": "open"},
        )


def _bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; it does not listen until the service is ready."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise InputError(f"--host {host} is not a known host name or address") from None
    family, _, _, _, address = addresses[0]
    bound_socket = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound_socket.bind(address)
    except OSError as error:
        bound_socket.close()
        raise InputError(
            f"port {port} of {host} cannot be used: {error.strerror or error}; choose another with --port"
        ) from None
    return bound_socket


def _allow_many_files() -> None:
    """Raise the limit on open files, usually 1,024, as far as the system allows.

    It also limits the number of connections.
    """
    with contextlib.suppress(ValueError, OSError):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
        if soft != resource.RLIM_INFINITY and soft < limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


class _JsonFormatter(logging.Formatter):
    """A log formatter that writes one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as JSON."""
        message = record.getMessage().strip()
        line = {
            "time": rfc3339(record.created),
            "level": record.levelname.lower(),
            "event": record.name,  # default for records without an event
            **{name: value for name, value in record.__dict__.items() if name not in _STANDARD},
            "message": message,
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _TextFormatter(logging.Formatter):
    """A log formatter that writes lines of text for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line of text."""
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        line = f"{rfc3339(record.created)} {level}{record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


@contextlib.contextmanager
def _log_to_stderr(log_format: str) -> Iterator[None]:
    """Log warnings of all libraries, and information of onebit, to stderr in one format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    root, onebit_logger = logging.getLogger(), logging.getLogger("onebit")
    level = onebit_logger.level
    root.addHandler(handler)
    onebit_logger.setLevel(logging.INFO)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        onebit_logger.setLevel(level)
        root.removeHandler(handler)
