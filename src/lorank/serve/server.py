"""The server of ``lorank serve``: load a model file, listen, and answer requests until Ctrl-C."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import sys
import threading
import warnings
import webbrowser
from pathlib import Path
from typing import Any

from ..common.blas_threads import one_blas_thread
from ..common.checks import ParameterError
from ..io.archive import FileError

BACKLOG, MAX_CONNECTIONS, MAX_HEAD = 1024, 512, 16 << 10  # waiting and open connections, bytes of a request's head
KEEP_ALIVE, READ_TIMEOUT = 5, 10.0  # seconds without a request, and for sending one


def titles_from(path: Path, label: str | None) -> dict[str, str]:
    """Titles of items from a file with a column of ids and a column of titles.

    Parameters
    ----------
    path : path
        CSV or TSV with column names in the first line.
    label : str, optional
        The model's name for items: the column of that name has the ids, by default the first one. Titles are in the column
        called title or name, or in the next one. Empty titles are skipped.
    """
    from ..io.delimited_text import read_layout
    from ..io.text_columns import read_cells

    layout = read_layout(path)
    names = layout.names
    if not layout.header or len(names) < 2:
        raise FileError(f"{path} needs a column of ids and of titles, with names in the first line")
    ids = label if label in names else names[0]
    called = [name for name in names if name.lower() in ("title", "name") and name != ids]
    title = called[0] if called else next(name for name in names if name != ids)
    cells = read_cells(path, layout)
    found = zip(cells[ids].to_list(), cells[title].to_list(), strict=True)
    return {one.strip(): called.strip() for one, called in found if (one or "").strip() and (called or "").strip()}


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; a FileError where the address is invalid or in use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ParameterError("host", f"must be an address of this machine, got {host!r}: {error.strerror or error}") from None
    try:
        if os.name != "nt":
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        found.close()
        said = getattr(error, "strerror", None) or error
        raise FileError(f"cannot listen at {host} port {port}: {said}. Try another --port; 0 selects a free one") from None
    return found


def is_local(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def make_server(app: Any) -> Any:
    """A uvicorn server without websockets, with limits on request heads, connections and the time to send a request.

    Requests wait for one of Starlette's threads. Beyond the limit of connections the answer is 503.
    """
    import h11
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Protocol(H11Protocol):
        """Closes connections whose request is incomplete after ``READ_TIMEOUT``."""

        timer: Any = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.timer = self.loop.call_later(READ_TIMEOUT, transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
                self.stop_timer()
            elif self.timer is None:
                self.timer = self.loop.call_later(READ_TIMEOUT, self.transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            self.stop_timer()
            super().connection_lost(exc)

        def stop_timer(self) -> None:
            if self.timer is not None:
                self.timer.cancel()
            self.timer = None

    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=Protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=MAX_HEAD,
        )
    )


@one_blas_thread
def serve(path: Path, host: str, port: int, titles: Path | None, browser: bool) -> None:
    """Serve a model file until Ctrl-C."""
    from ..io.archive import load_model
    from .adapters import adapter_for
    from .app import LOCAL, make_app

    model = load_model(path)
    label = (getattr(getattr(model, "state_", None), "labels", None) or {}).get("col")
    adapter = adapter_for(model, None if titles is None else titles_from(titles, label))
    local = is_local(host)
    if not local:
        warnings.warn(
            f"at {host} the model and all its ids are accessible from other machines without a password",
            UserWarning,
            stacklevel=2,
        )
    app = make_app(adapter, LOCAL if local else None, path.stem or "lorank")
    with listen(host, port) as waiting:
        name = f"[{host}]" if ":" in host else host
        url = f"http://{name}:{waiting.getsockname()[1]}/"
        print(f"{url}  (stop with Ctrl-C)", flush=True)
        if browser and local and _has_display():
            threading.Timer(0.5, webbrowser.open, (url,)).start()
        with contextlib.suppress(KeyboardInterrupt):  # the usual end
            make_server(app).run(sockets=[waiting])


def _has_display() -> bool:
    """Whether a graphical browser can be opened, as opposed to one in this terminal."""
    return sys.platform in ("win32", "darwin") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
