"""The web pages, read once at startup, so that no request path ever becomes a file path."""

from __future__ import annotations

import hashlib
import secrets
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from onebit.errors import truncate
from onebit.service.errors import NotFoundError
from onebit.service.http.responses import STRICT_HEADERS, Reply

PAGES = ("dashboard", "play", "docs", "login")
SHARED_ASSETS = ("uPlot.iife.min.js", "uPlot.min.css")  # shared with the pages of experiments
TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
HTML = "text/html; charset=utf-8"
NONCE = "__NONCE__"  # placeholder in the login page, whose script is inline since files need a token


def _build_policy(script: str, style: str) -> str:
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


class File:
    """A file to serve, with its headers."""

    def __init__(self, content: bytes, kind: str) -> None:
        self._content = content
        self._headers = {
            **STRICT_HEADERS,
            "content-type": kind,
            "content-security-policy": _build_policy("'self'", "'self'"),
            "cache-control": "private, no-cache",  # cached but revalidated each time, since it needs a token
            "vary": "authorization, cookie",
            "etag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        }

    def build_reply(self, request: Request) -> Response:
        """Return the file, or 304 if the browser has it already."""
        if self._headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=self._headers)
        return Reply(self._content, headers=self._headers)


class Pages:
    """The web pages, and the scripts and style sheets that they load."""

    def __init__(self) -> None:
        own, shared = files("onebit.service.pages"), files("onebit.experiments.report") / "assets"
        self._login = (own / "login.html").read_text(encoding="utf-8")
        self._pages = {name: File((own / f"{name}.html").read_bytes(), HTML) for name in PAGES if name != "login"}
        assets = [*own.iterdir(), *(shared / name for name in SHARED_ASSETS)]
        kinds = [(file, TYPES.get(file.name.rpartition(".")[2])) for file in assets]
        self._assets = {file.name: File(file.read_bytes(), kind) for file, kind in kinds if kind is not None}

    def build_login_page(self) -> Response:
        """Return the login page; a fresh nonce allows its one script."""
        nonce = secrets.token_urlsafe(16)
        headers = {
            **STRICT_HEADERS,
            "content-security-policy": _build_policy(f"'nonce-{nonce}'", "'unsafe-inline'"),
            "cache-control": "no-store",
            "www-authenticate": 'Bearer realm="onebit"',
        }
        return Response(self._login.replace(NONCE, nonce), 401, headers, HTML)

    async def dashboard(self, request: Request) -> Response:
        """Return the dashboard, which shows all tasks live."""
        return self._pages["dashboard"].build_reply(request)

    async def play(self, request: Request, task: str) -> Response:
        """Return the page on which a person tries a task and gives feedback."""
        return self._pages["play"].build_reply(request)

    async def docs(self, request: Request) -> Response:
        """Return the page that describes every route."""
        return self._pages["docs"].build_reply(request)

    async def asset(self, request: Request, name: str) -> Response:
        """Return a script or a style sheet of the pages."""
        if name not in self._assets:
            raise NotFoundError(f"there is no file {truncate(name)!r}")
        return self._assets[name].build_reply(request)
