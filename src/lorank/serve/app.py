"""The web application: one HTML page and a JSON interface. It serves no files and stores no requests.

Ids are query parameters or members of JSON, never parts of a path. Requests and responses are limited in size, invalid requests
get a JSON object ``{"error": ...}``, and the page's content security policy allows requests to its own server only.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
import sys
import traceback
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..report.html import Markup, asset, document
from .adapters import Ranked, ServedModel
from .search import IdIndex

LOCAL = ("127.0.0.1", "localhost", "[::1]")
MAX_ENTRIES, MAX_ITEMS = 100, 200  # entries of a response, items of a new user
MAX_QUERY, MAX_BODY = 4096, 1 << 16  # bytes of a request
Answer = dict[str, Any]


class RequestError(Exception):
    """An invalid request: the HTTP status and the message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def make_app(model: ServedModel, hosts: Collection[str] | None = LOCAL, title: str = "lorank") -> Starlette:
    """Create the application.

    Parameters
    ----------
    model : ServedModel
    hosts : collection of str, optional
        Accepted host names, which protects against DNS rebinding. None accepts all.
    title : str
        Title of the page.
    """
    body = asset(__package__, "assets/body.html").replace("{{title}}", html.escape(title))
    style, script = (asset(__package__, f"assets/page.{kind}") for kind in ("css", "js"))
    page = document(title, Markup(body), style=style, script=script)
    headers = {"content-security-policy": security_policy(page)}

    def show_page(request: Request) -> Response:
        return Response(page, media_type="text/html", headers=headers)

    def get(path: str, answer: Callable[[ServedModel, dict[str, str]], Answer], allowed: tuple[str, ...]) -> Route:
        def endpoint(request: Request) -> Response:  # not async: Starlette runs it in a thread
            return _json(answer(model, _parameters(request, allowed)))

        return Route(path, endpoint, methods=["GET"])

    async def recommend_for(request: Request) -> Response:
        body = await _body(request)
        return _json(await run_in_threadpool(_recommend_for, model, body))

    routes = [
        Route("/", show_page, methods=["GET"]),
        get("/api/model", _about, ()),
        get("/api/search", _search, ("q", "kind", "n")),
        get("/api/user", _user, ("user", "n")),
        get("/api/item", _item, ("item",)),
        get("/api/recommend", _recommend, ("user", "n", "by")),
        Route("/api/recommend-for", recommend_for, methods=["POST"]),
        get("/api/similar", _similar, ("item", "user", "n")),
        get("/api/explain", _explain, ("user", "item", "n")),
    ]

    def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestError)
        return _json({"error": error.message}, error.status)

    def missing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        known = {404: "no such page: see / and /api/model", 405: "this path needs another HTTP method"}
        return _json({"error": known.get(error.status_code, str(error.detail))}, error.status_code, error.headers)

    app = Starlette(routes=routes, exception_handlers={RequestError: refused, HTTPException: missing})
    app.router.redirect_slashes = False
    app.add_middleware(_Guard, hosts=None if hosts is None else frozenset(hosts))
    return app


# -- responses --------------------------------------------------------------------------------------------------------
def _about(model: ServedModel, asked: dict[str, str]) -> Answer:
    about = model.about() | {"users": len(model.users), "items": len(model.items)}
    return about | {"labels": model.labels, "orders": list(model.orders), "number": model.number, "most": MAX_ENTRIES}


def _search(model: ServedModel, asked: dict[str, str]) -> Answer:
    n, kind, text = _count(asked), asked.get("kind"), asked.get("q", "")
    if kind not in (None, "user", "item"):
        raise RequestError(400, f"kind must be user or item, or omitted: got {kind!r}")
    found = {}
    for name, side in (("user", model.users), ("item", model.items)):
        if kind in (None, name):
            found[name + "s"] = [side.entry(place) for place in side.search(text, n)]
    return {"query": text} | found


def _user(model: ServedModel, asked: dict[str, str]) -> Answer:
    user = _place(model.users, asked, "user")
    return {"user": model.users.entry(user), "observed": _listed(model.items, model.observed(user, _count(asked)), "value")}


def _item(model: ServedModel, asked: dict[str, str]) -> Answer:
    return {"item": model.items.entry(_place(model.items, asked, "item"))}


def _recommend(model: ServedModel, asked: dict[str, str]) -> Answer:
    user, by = _place(model.users, asked, "user"), asked.get("by", model.orders[0])
    if by not in model.orders:
        raise RequestError(400, f"by must be {' or '.join(model.orders)}, got {by!r}")
    found = model.recommend(user, _count(asked), by)
    return {"user": model.users.entry(user), "by": by, "items": _listed(model.items, found, model.number)}


def _similar(model: ServedModel, asked: dict[str, str]) -> Answer:
    if ("user" in asked) == ("item" in asked):
        raise RequestError(400, "similar takes either an item or a user: /api/similar?item=...")
    kind = "user" if "user" in asked else "item"
    side = model.users if kind == "user" else model.items
    place = _place(side, asked, kind)
    found = model.similar(kind, place, min(_count(asked), len(side)))
    return {kind: side.entry(place), kind + "s": _listed(side, found, "cosine")}


def _explain(model: ServedModel, asked: dict[str, str]) -> Answer:
    user, item = _place(model.users, asked, "user"), _place(model.items, asked, "item")
    try:
        found = model.explain(user, item)
    except ValueError as error:  # a model file of an earlier version
        raise RequestError(409, str(error)) from None
    some = slice(0, _count(asked))
    listed = _listed(model.items, Ranked(found.items[some], found.contributions[some]), "contribution")
    return {
        "user": model.users.entry(user),
        "item": model.items.entry(item),
        "score": _number(found.score),
        "of": len(found.items),
        "because": listed,
    }


def _recommend_for(model: ServedModel, body: Any) -> Answer:
    if not isinstance(body, dict) or not set(body) <= {"items", "n"} or not isinstance(body.get("items"), list):
        raise RequestError(400, 'the body must be a JSON object: {"items": ["id", ...], "n": 10}')
    given, n = body["items"], body.get("n", 10)
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MAX_ENTRIES:
        raise RequestError(400, f"n must be a whole number from 1 to {MAX_ENTRIES}")
    if not 1 <= len(given) <= MAX_ITEMS or not all(isinstance(one, (str, int)) and not isinstance(one, bool) for one in given):
        raise RequestError(400, f"items must be a list of 1 to {MAX_ITEMS} ids, text or whole numbers")
    places = [_place(model.items, {"item": str(one)}, "item") for one in given]
    items = np.unique(np.array(places, np.int64))
    found = model.recommend_for(items, min(n, len(model.items)))
    return {"for": [model.items.entry(int(at)) for at in items], "items": _listed(model.items, found, model.number)}


# -- requests and JSON -------------------------------------------------------------------------------------------------
def _parameters(request: Request, allowed: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in request.query_params.multi_items():
        if name not in allowed:
            raise RequestError(400, f"unknown parameter {name[:40]!r}: valid are {', '.join(allowed) or 'none'}")
        if name in found:
            raise RequestError(400, f"{name} is given twice")
        found[name] = text
    return found


def _count(asked: dict[str, str]) -> int:
    text = asked.get("n", "10")
    if not text.isascii() or not text.isdigit() or len(text) > 6 or not 1 <= int(text) <= MAX_ENTRIES:
        raise RequestError(400, f"n must be a whole number from 1 to {MAX_ENTRIES}, got {text[:40]!r}")
    return int(text)


def _place(side: IdIndex, asked: dict[str, str], name: str) -> int:
    if name not in asked:
        raise RequestError(400, f"{name} is missing: ...?{name}=ID")
    place = side.position(asked[name])
    if place is None:
        raise RequestError(404, f"unknown {name} {asked[name][:80]!r}")
    return place


async def _body(request: Request) -> Any:
    """The JSON of a request, read up to the limit of its size."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BODY:
            raise RequestError(413, f"a request may have at most {MAX_BODY:,} bytes")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise RequestError(400, "the body is not valid JSON") from None


def _listed(side: IdIndex, found: Ranked, name: str) -> list[Answer]:
    return [side.entry(int(place)) | {name: _number(number)} for place, number in zip(found.indices, found.values, strict=True)]


def _number(value: Any) -> float | None:
    """A finite number, or None: JSON has no nan."""
    return float(value) if math.isfinite(value) else None


def _json(content: Answer, status: int = 200, headers: Any = None) -> Response:
    """A JSON response in ASCII: ids may contain lone surrogates, which UTF-8 cannot encode."""
    body = json.dumps(content, allow_nan=False).encode("ascii")
    return Response(body, status, dict(headers or {}), media_type="application/json")


class _Guard:
    """Middleware: checks host name and size of the query, adds security headers, reports unexpected errors."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # not offered
            await send({"type": "websocket.close"})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [
                    *message["headers"],
                    (b"x-content-type-options", b"nosniff"),
                    (b"referrer-policy", b"no-referrer"),
                    (b"x-frame-options", b"DENY"),
                    (b"cross-origin-resource-policy", b"same-origin"),
                    (b"cache-control", b"no-store"),
                ]
            await send(message)

        wrong = self._refusal(scope)
        if wrong is not None:
            await _json({"error": wrong.message}, wrong.status)(scope, receive, guarded)
            return
        try:
            await self.app(scope, receive, guarded)
        except Exception:
            traceback.print_exc(file=sys.stderr)
            if started:
                raise
            await _json({"error": "internal error: see the output of the server"}, 500)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> RequestError | None:
        path = (scope.get("raw_path") or b"").partition(b"?")[0]  # some servers include the query
        if len(path) + len(scope.get("query_string", b"")) > MAX_QUERY:
            return RequestError(414, f"a URL may have at most {MAX_QUERY:,} bytes")
        if self.hosts is not None:
            names = [value for name, value in scope["headers"] if name == b"host"]
            if len(names) != 1 or _without_port(names[0].decode("latin1")) not in self.hosts:
                return RequestError(400, "unknown host name: use 127.0.0.1 or localhost")
        return None


def security_policy(page: str) -> str:
    """A content security policy that admits only the style and scripts of this page, and requests to its own server."""
    sums = {
        tag: " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in found)
        for tag in ("style", "script")
        if (found := re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL))
    }
    return (
        f"default-src 'none'; style-src {sums['style']}; script-src {sums['script']}; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
