"""The page in Chromium, by keyboard alone, at the width of a desktop and of a phone."""

from __future__ import annotations

import threading

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import lorank as lr
from browser import Browser
from lorank.serve.adapters import adapter_for
from lorank.serve.app import make_app
from lorank.serve.server import listen, make_server

EVIL = "<img src=x onerror=\"document.body.dataset.hacked='yes'\">&amp;"


@pytest.fixture(scope="module")
def url():
    """A running server, whose busiest user and item have hostile names."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((40, 30)) < np.where(np.arange(40)[:, None] % 2 == np.arange(30) % 2, 0.5, 0.05))
    users, items = np.append(users, [0] * 9), np.append(items, np.arange(0, 18, 2))
    data = [(EVIL if u == 0 else f"u{u}", EVIL if i == 2 else f"i{i}") for u, i in zip(users, items, strict=True)]
    model = lr.ImplicitFactorization(rank=4, zeros=0.1, regularization=0.02).fit(data)
    with listen("127.0.0.1", 0) as waiting:
        server = make_server(make_app(adapter_for(model, {"i4": EVIL + " the fourth"})))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [waiting]})
        thread.start()
        yield f"http://127.0.0.1:{waiting.getsockname()[1]}/"
        server.should_exit = True
        thread.join()


FOCUS = "document.activeElement.textContent"


@pytest.mark.needs("chromium")
@pytest.mark.parametrize(("width", "mobile"), [(1280, False), (390, True)], ids=["desktop", "phone"])
def test_the_page_works_by_keyboard(url, width, mobile, tmp_path):
    with Browser(tmp_path, width, 800, mobile) as page:
        page.open(url)
        page.wait("document.body && document.body.dataset.shown")
        while page.js("document.activeElement.id") != "box":
            page.press("Tab")
        page.write("<img")
        page.wait("document.querySelectorAll('[role=option]').length === 3")  # a user, an item, and one by its title
        page.press("ArrowDown")
        assert page.js("document.querySelector('[aria-selected=true]').id") == "option-0"
        page.press("Enter")
        page.wait("document.body.dataset.shown.startsWith('#user=')")
        assert page.js("document.querySelector('h2').textContent") == EVIL
        assert page.js("document.querySelectorAll('section').length") == 3
        while page.js(FOCUS) != "Why?":
            page.press("Tab")
        page.press("Enter")
        assert page.wait("document.querySelectorAll('.why li').length") >= 1
        assert page.js("document.activeElement.getAttribute('aria-expanded')") == "true"
        page.press("Enter")
        assert page.js("document.querySelectorAll('.why').length") == 0

        page.js("document.getElementById('box').focus()")
        page.write("i6")
        page.press("Enter")  # without waiting for the list
        page.wait("document.body.dataset.shown === '#item=i6'")
        near = page.js("[...document.querySelectorAll('section li a')].map((a) => a.hash)")
        assert len(near) == 12
        while not page.js(FOCUS).startswith("Recommend for a new user"):
            page.press("Tab")
        page.press("Enter")
        page.wait("document.body.dataset.shown === '#new=i6'")
        assert page.js("document.querySelectorAll('ol li').length") == 10
        page.js("history.back()")
        page.wait("document.body.dataset.shown === '#item=i6'")

        assert page.js("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert page.js("document.body.dataset.hacked || document.querySelectorAll('img').length") == 0
        assert page.said == []
        page.open(url + "#user=nobody")
        page.wait("(document.querySelector('.error') || {}).textContent === \"unknown user 'nobody'\"")
        assert len(page.picture()) > 5000
