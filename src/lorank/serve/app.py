"""The web application: one page and JSON. It serves no files, reads no paths, and keeps nothing of what it is asked.

Ids are query parameters or members of JSON, never part of a path. Requests and answers are limited in size, what is malformed
is answered with a sentence (``{"error": ...}``), and the headers forbid the page to load or to send anything elsewhere.
"""

from __future__ import annotations

import json
import math
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

from .adapters import Listed, Served
from .page import build_page, security_policy
from .search import Side

LOCAL = ("127.0.0.1", "localhost", "[::1]")
MOST, ITEMS = 100, 200  # entries of an answer, items of somebody new
QUERY, BODY = 4096, 1 << 16  # bytes of a request
Answer = dict[str, Any]


class Refusal(Exception):
    """A request that cannot be answered, and the reason."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status, self.said = status, said


def make_app(model: Served, hosts: Collection[str] | None = LOCAL, title: str = "lorank") -> Starlette:
    """The application.

    Parameters
    ----------
    model : Served
    hosts : collection of str, optional
        Names by which it may be called: pages of other origins cannot reach it under a name of theirs. None allows all.
    title : str
        Of the page.
    """
    page = build_page(title)
    headers = {"content-security-policy": security_policy(page)}

    def show_page(request: Request) -> Response:
        return Response(page, media_type="text/html", headers=headers)

    def get(path: str, answer: Callable[[Served, dict[str, str]], Answer], allowed: tuple[str, ...]) -> Route:
        def endpoint(request: Request) -> Response:  # not async: Starlette gives it a thread
            return _json(answer(model, _parameters(request, allowed)))

        return Route(path, endpoint, methods=["GET"])

    async def for_somebody_new(request: Request) -> Response:
        body = await _body(request)
        return _json(await run_in_threadpool(_new, model, body))

    routes = [
        Route("/", show_page, methods=["GET"]),
        get("/api/model", _about, ()),
        get("/api/search", _search, ("q", "kind", "n")),
        get("/api/user", _user, ("user", "n")),
        get("/api/item", _item, ("item",)),
        get("/api/recommend", _recommend, ("user", "n", "by")),
        Route("/api/recommend-for", for_somebody_new, methods=["POST"]),
        get("/api/similar", _similar, ("item", "user", "n")),
        get("/api/explain", _explain, ("user", "item", "n")),
    ]

    def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return _json({"error": error.said}, error.status)

    def missing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        said = {404: "there is no such page: see / and /api/model", 405: "this is asked for with another method"}
        return _json({"error": said.get(error.status_code, str(error.detail))}, error.status_code, error.headers)

    app = Starlette(routes=routes, exception_handlers={Refusal: refused, HTTPException: missing})
    app.router.redirect_slashes = False
    app.add_middleware(_Guard, hosts=None if hosts is None else frozenset(hosts))
    return app


# -- what is asked for -------------------------------------------------------------------------------------------------
def _about(model: Served, asked: dict[str, str]) -> Answer:
    about = model.about() | {"users": len(model.users), "items": len(model.items)}
    return about | {"labels": model.labels, "orders": list(model.orders), "number": model.number, "most": MOST}


def _search(model: Served, asked: dict[str, str]) -> Answer:
    n, kind, text = _count(asked), asked.get("kind"), asked.get("q", "")
    if kind not in (None, "user", "item"):
        raise Refusal(400, f"kind must be user or item, or left out: got {kind!r}")
    found = {}
    for name, side in (("user", model.users), ("item", model.items)):
        if kind in (None, name):
            found[name + "s"] = [side.shown(place) for place in side.search(text, n)]
    return {"query": text} | found


def _user(model: Served, asked: dict[str, str]) -> Answer:
    user = _place(model.users, asked, "user")
    taken = [model.items.shown(int(place)) for place in model.taken(user, _count(asked))]
    return {"user": model.users.shown(user), "taken": taken}


def _item(model: Served, asked: dict[str, str]) -> Answer:
    return {"item": model.items.shown(_place(model.items, asked, "item"))}


def _recommend(model: Served, asked: dict[str, str]) -> Answer:
    user, by = _place(model.users, asked, "user"), asked.get("by", model.orders[0])
    if by not in model.orders:
        raise Refusal(400, f"by must be {' or '.join(model.orders)}, got {by!r}")
    found = model.recommend(user, _count(asked), by)
    return {"user": model.users.shown(user), "by": by, "items": _listed(model.items, found, model.number)}


def _similar(model: Served, asked: dict[str, str]) -> Answer:
    if ("user" in asked) == ("item" in asked):
        raise Refusal(400, "similar takes an item or a user, and not both: /api/similar?item=...")
    kind = "user" if "user" in asked else "item"
    side = model.users if kind == "user" else model.items
    place = _place(side, asked, kind)
    found = model.similar(kind, place, min(_count(asked), len(side)))
    return {kind: side.shown(place), kind + "s": _listed(side, found, "cosine")}


def _explain(model: Served, asked: dict[str, str]) -> Answer:
    user, item = _place(model.users, asked, "user"), _place(model.items, asked, "item")
    try:
        found = model.explain(user, item)
    except ValueError as error:  # a file of an earlier version
        raise Refusal(409, str(error)) from None
    some = slice(0, _count(asked))
    listed = _listed(model.items, Listed(found.items[some], found.contributions[some]), "contribution")
    return {
        "user": model.users.shown(user),
        "item": model.items.shown(item),
        "score": _number(found.score),
        "of": len(found.items),
        "because": listed,
    }


def _new(model: Served, body: Any) -> Answer:
    if not isinstance(body, dict) or not set(body) <= {"items", "n"} or not isinstance(body.get("items"), list):
        raise Refusal(400, 'the body is a JSON object: {"items": ["id", ...], "n": 10}')
    given, n = body["items"], body.get("n", 10)
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST:
        raise Refusal(400, f"n must be a whole number from 1 to {MOST}")
    if not 1 <= len(given) <= ITEMS or not all(isinstance(one, (str, int)) and not isinstance(one, bool) for one in given):
        raise Refusal(400, f"items must be a list of 1 to {ITEMS} ids, text or whole numbers")
    places = [_place(model.items, {"item": str(one)}, "item") for one in given]
    items = np.unique(np.array(places, np.int64))
    found = model.recommend_for(items, min(n, len(model.items)))
    return {"for": [model.items.shown(int(at)) for at in items], "items": _listed(model.items, found, model.number)}


# -- how it is asked for, and answered -----------------------------------------------------------------------------------
def _parameters(request: Request, allowed: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in request.query_params.multi_items():
        if name not in allowed:
            raise Refusal(400, f"unknown parameter {name[:40]!r}: this takes {', '.join(allowed) or 'none'}")
        if name in found:
            raise Refusal(400, f"{name} is given twice")
        found[name] = text
    return found


def _count(asked: dict[str, str]) -> int:
    text = asked.get("n", "10")
    if not text.isascii() or not text.isdigit() or len(text) > 6 or not 1 <= int(text) <= MOST:
        raise Refusal(400, f"n must be a whole number from 1 to {MOST}, got {text[:40]!r}")
    return int(text)


def _place(side: Side, asked: dict[str, str], name: str) -> int:
    if name not in asked:
        raise Refusal(400, f"{name} is missing: ...?{name}=ID")
    place = side.place(asked[name])
    if place is None:
        raise Refusal(404, f"unknown {name} {asked[name][:80]!r}")
    return place


async def _body(request: Request) -> Any:
    """JSON of a limited size, however long it claims to be."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > BODY:
            raise Refusal(413, f"a request has at most {BODY:,} bytes")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is no JSON") from None


def _listed(side: Side, found: Listed, name: str) -> list[Answer]:
    return [side.shown(int(place)) | {name: _number(number)} for place, number in zip(found.places, found.numbers, strict=True)]


def _number(value: Any) -> float | None:
    """JSON has no nan."""
    return float(value) if math.isfinite(value) else None


def _json(content: Answer, status: int = 200, headers: Any = None) -> Response:
    """All ASCII: ids may be any text, even halves of characters, which UTF-8 cannot hold."""
    body = json.dumps(content, allow_nan=False).encode("ascii")
    return Response(body, status, dict(headers or {}), media_type="application/json")


class _Guard:
    """Around the application: its name, the size of the query, headers, and whatever goes wrong unforeseen."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # there are none here
            await send({"type": "websocket.close"})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
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
            await _json({"error": wrong.said}, wrong.status)(scope, receive, guarded)
            return
        try:
            await self.app(scope, receive, guarded)
        except Exception:
            traceback.print_exc(file=sys.stderr)
            if begun:
                raise
            await _json({"error": "something went wrong here; the terminal of the server says what"}, 500)(
                scope, receive, guarded
            )

    def _refusal(self, scope: Scope) -> Refusal | None:
        path = (scope.get("raw_path") or b"").partition(b"?")[0]  # some servers leave the query there
        if len(path) + len(scope.get("query_string", b"")) > QUERY:
            return Refusal(414, f"an address has at most {QUERY:,} bytes")
        if self.hosts is not None:
            names = [value for name, value in scope["headers"] if name == b"host"]
            if len(names) != 1 or _without_port(names[0].decode("latin1")) not in self.hosts:
                return Refusal(400, "this server answers under its own names only: 127.0.0.1 or localhost")
        return None


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
