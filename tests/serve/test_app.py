"""The server: its answers, what it refuses, and what it never gives away."""

from __future__ import annotations

import dataclasses
import json
import socket
import threading
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

with warnings.catch_warnings():  # which of two clients Starlette would rather have
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

import lorank as lr
from lorank.io.archive import FileError
from lorank.serve import app as module
from lorank.serve.adapters import adapter_for
from lorank.serve.app import make_app
from lorank.serve.search import IdIndex
from lorank.serve.server import is_local, listen, make_server, titles_from

EVIL = "<img src=x onerror=alert(1)>&\"'/../%2e"


def pairs():
    """Two kinds of users and of items; one user and one item with hostile names."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((40, 24)) < np.where(np.arange(40)[:, None] % 2 == np.arange(24) % 2, 0.6, 0.05))
    user_ids = [EVIL if u == 5 else f"u{u}" for u in range(40)]
    item_ids = [EVIL if i == 3 else f"i{i}" for i in range(24)]
    return users, items, user_ids, item_ids


@pytest.fixture(scope="module")
def taken():
    users, items, user_ids, item_ids = pairs()
    data = [(user_ids[u], item_ids[i]) for u, i in zip(users, items, strict=True)]
    return lr.ImplicitFactorization(rank=4, zeros=0.1, regularization=0.02).fit(data)


@pytest.fixture(scope="module")
def rated():
    """With ids as lorank complete stores them: text, and whole numbers beyond what a browser can count."""
    users, items, user_ids, _ = pairs()
    names, codes = np.unique(np.array(user_ids)[users], return_inverse=True)
    numbers, places = np.unique(2**60 + items, return_inverse=True)
    values = 3.0 + (items % 3) + 0.1 * (users % 4)
    model = lr.MatrixCompletion(rank=1, regularization="learned").fit(np.column_stack([codes, places]), values)
    labels = {"row": "user", "col": "film", "value": "stars"}
    model.state_ = dataclasses.replace(model.state_, ids={"rows": names, "cols": numbers}, labels=labels)
    return model


@pytest.fixture(scope="module")
def client(taken):
    return TestClient(make_app(adapter_for(taken)), base_url="http://127.0.0.1:8765")


@pytest.fixture(scope="module")
def rating_client(rated):
    titles = {str(2**60 + 4): "The Fourth <b>"}
    return TestClient(make_app(adapter_for(rated, titles)), base_url="http://localhost")


def test_answers_are_those_of_the_model(client, taken):
    for user in ("u7", EVIL):
        found = client.get("/api/recommend", params={"user": user, "n": 5}).json()
        best = taken.recommend(user, n=5)
        assert [one["id"] for one in found["items"]] == best.items[0].tolist()
        np.testing.assert_allclose([one["score"] for one in found["items"]], best.scores[0], rtol=1e-6)
        why = client.get("/api/explain", params={"user": user, "item": "i2", "n": 3}).json()
        plain = taken.explain(user, "i2")
        assert [one["id"] for one in why["because"]] == plain.items[:3].tolist()
        assert (why["of"], why["score"]) == (len(plain.items), pytest.approx(plain.score))
        own = client.get("/api/user", params={"user": user, "n": 100}).json()
        assert sorted(one["id"] for one in own["observed"]) == sorted(plain.items.tolist())
    near = client.get("/api/similar", params={"item": EVIL, "n": 4}).json()
    assert [one["id"] for one in near["items"]] == taken.similar_items(EVIL, n=4).items[0].tolist()
    people = client.get("/api/similar", params={"user": EVIL, "n": 4}).json()
    assert [one["id"] for one in people["users"]] == taken.similar_users(EVIL, n=4).items[0].tolist()
    new = client.post("/api/recommend-for", json={"items": ["i2", "i4", "i2"], "n": 3}).json()
    assert [one["id"] for one in new["items"]] == taken.recommend_for(["i2", "i4"], n=3).items[0].tolist()
    assert [one["id"] for one in new["for"]] == ["i2", "i4"]
    about = client.get("/api/model").json()
    assert (about["users"], about["items"], about["observations"]) == (40, 24, len(taken.state_.training.counts))


def test_answers_of_ratings(rating_client, rated):
    for by in ("affinity", "rating"):
        found = rating_client.get("/api/recommend", params={"user": "u7", "n": 4, "by": by}).json()
        items, predicted = rated.recommend("u7", n=4, by=by)
        assert [one["id"] for one in found["items"]] == [str(i) for i in items[0]]  # text: beyond 2^53
        np.testing.assert_allclose([one["prediction"] for one in found["items"]], predicted[0])
    item = str(2**60 + 4)
    why = rating_client.get("/api/explain", params={"user": "u7", "item": item}).json()
    assert why["score"] == pytest.approx(rated.explain("u7", 2**60 + 4).score)
    near = rating_client.get("/api/similar", params={"item": item, "n": 3}).json()
    assert near["item"] == {"id": item, "count": int(rated.model_.col_counts[4]), "title": "The Fourth <b>"}
    new = rating_client.post("/api/recommend-for", json={"items": [2**60 + 4], "n": 3}).json()
    assert {int(one["id"]) % 2 for one in new["items"]} == {0}  # of the same kind
    assert rating_client.get("/api/model").json()["labels"] == {"user": "user", "item": "film", "value": "stars"}
    own = rating_client.get("/api/user", params={"user": "u7", "n": 2}).json()
    assert len(own["observed"]) == 2
    users, items, user_ids, _ = pairs()
    mine = {str(2**60 + i): 3.0 + (i % 3) + 0.1 * (u % 4) for u, i in zip(users, items, strict=True) if user_ids[u] == "u7"}
    own = rating_client.get("/api/user", params={"user": "u7", "n": 100}).json()["observed"]
    assert {one["id"]: one["value"] for one in own} == pytest.approx(mine)
    assert [one["value"] for one in own] == sorted((one["value"] for one in own), reverse=True)


@pytest.mark.parametrize(("loss", "classes"), [("ordinal", [1.0, 2.0, 5.0]), ("logistic", [-1.0, 1.0])])
def test_own_ratings_are_classes_as_given(loss, classes):
    users, items, _, _ = pairs()
    values = np.array(classes)[(users + items) % len(classes)]
    model = lr.MatrixCompletion(rank=1, regularization=1.0, loss=loss, max_iter=3).fit(np.column_stack([users, items]), values)
    own = adapter_for(model).observed(7, 100)
    there = users == 7
    assert dict(zip(own.indices.tolist(), own.values.tolist(), strict=True)) == dict(
        zip(items[there].tolist(), values[there].tolist(), strict=True)
    )


def test_search(rating_client, client):
    found = client.get("/api/search", params={"q": "U1", "n": 5}).json()
    assert found["items"] == []
    assert found["users"][0]["id"] != "u2"
    assert all(one["id"].startswith("u1") for one in found["users"])
    assert client.get("/api/search", params={"q": "u13"}).json()["users"][0]["id"] == "u13"
    hostile = client.get("/api/search", params={"q": "<IMG", "kind": "item"}).json()
    assert [one["id"] for one in hostile["items"]] == [EVIL]
    assert "users" not in hostile
    titled = rating_client.get("/api/search", params={"q": "fourth"}).json()
    assert [one["id"] for one in titled["items"]] == [str(2**60 + 4)]
    busiest = client.get("/api/search", params={"q": ""}).json()["items"]
    assert [one["count"] for one in busiest] == sorted((one["count"] for one in busiest), reverse=True)


def test_ids_of_a_side():
    side = IdIndex(np.array([-5, 3, 2**62]), np.array([1, 1, 1]))
    assert [side.position(text) for text in ("-5", "3", str(2**62))] == [0, 1, 2]
    for text in ("", "3.0", "+3", "٣", "--5", "9" * 30, "nan", " 3"):
        assert side.position(text) is None
    assert IdIndex(np.empty(0, np.int64), np.empty(0)).position("1") is None
    assert IdIndex(np.array(["a", "b"]), np.ones(2)).search("c", 5) == []


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/api/recommend", 400, "user is missing"),
        ("/api/recommend?user=nobody", 404, "unknown user 'nobody'"),
        ("/api/recommend?user=%ff%fe", 404, "unknown user"),
        ("/api/recommend?user=%00", 404, "unknown user"),
        ("/api/recommend?user=u1&user=u2", 400, "given twice"),
        ("/api/recommend?user=u1&n=0", 400, "n must be"),
        ("/api/recommend?user=u1&n=101", 400, "n must be"),
        ("/api/recommend?user=u1&n=-1", 400, "n must be"),
        ("/api/recommend?user=u1&n=1e3", 400, "n must be"),
        ("/api/recommend?user=u1&n=%D9%A3", 400, "n must be"),
        ("/api/recommend?user=u1&n=" + "9" * 4000, 400, "n must be"),
        ("/api/recommend?user=u1&by=price", 400, "by must be affinity"),
        ("/api/recommend?user=u1&path=/etc/passwd", 400, "unknown parameter 'path'"),
        ("/api/recommend?" + "x" * 5000, 414, "at most"),
        ("/" + "x" * 5000, 414, "at most"),
        ("/api/similar", 400, "item"),
        ("/api/similar?user=u1&item=i1", 400, "item"),
        ("/api/explain?user=u1", 400, "item is missing"),
        ("/api/search?kind=file", 400, "kind must be"),
        ("/api/item?item=..%2f..%2fetc%2fpasswd", 404, "unknown item"),
        ("/api/model?x=1", 400, "none"),
        ("/api/", 404, "no such page"),
        ("/api/model/", 404, "no such page"),
        ("/assets/page.js", 404, "no such page"),
        ("/../../../../etc/passwd", 404, "no such page"),
        ("/..%2f..%2f..%2fetc%2fpasswd", 404, "no such page"),
        ("/%2e%2e/%2e%2e/pyproject.toml", 404, "no such page"),
        ("//etc/passwd", 404, "no such page"),
        ("/page.py", 404, "no such page"),
    ],
)
def test_what_is_refused(client, path, status, said):
    answer = client.get("http://127.0.0.1" + path)
    assert answer.status_code == status
    assert said in answer.json()["error"]
    assert len(answer.content) < 600


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[1]", 400),
        (b'{"items": []}', 400),
        (b'{"items": "i2"}', 400),
        (b'{"items": [true]}', 400),
        (b'{"items": [1.5]}', 400),
        (b'{"items": [{"id": 1}]}', 400),
        (b'{"items": ["\\ud800"]}', 404),  # half a character
        (b'{"items": ["i2"], "n": true}', 400),
        (b'{"items": ["i2"], "n": 1e9}', 400),
        (b'{"items": ["i2"], "n": NaN}', 400),
        (b'{"items": ["i2"], "x": 1}', 400),
        (b"[" * 60000, 400),
        (b"9" * 60000, 400),
        (json.dumps({"items": ["i2"] * 201}).encode(), 400),
        (b'{"items": ["' + b"x" * (1 << 17) + b'"]}', 413),
    ],
)
def test_bodies_that_are_refused(client, body, status):
    answer = client.post("/api/recommend-for", content=body)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_methods_and_names(client):
    assert client.post("/api/model").status_code == 405
    assert client.delete("/").status_code == 405
    assert client.get("/api/recommend-for").status_code == 405
    for host in ("evil.example", "127.0.0.1.evil.example", "", "localhost:80:80", "127.0.0.1@evil.example"):
        assert client.get("/api/model", headers={"host": host}).status_code == 400
    for host in ("localhost:8765", "LOCALHOST", "[::1]:8765", "127.0.0.1"):
        assert client.get("/api/model", headers={"host": host}).status_code == 200


def test_the_page_is_one_and_escaped_and_loads_nothing(taken):
    page = TestClient(make_app(adapter_for(taken), hosts=None, title="<script>alert(1)</script>")).get("http://any.example/")
    assert page.status_code == 200
    text = page.text
    assert "<script>alert" not in text
    assert "{{" not in text
    for word in ("src=", "http:", "https:", "@import", "url(", "innerHTML", "eval("):
        assert word not in text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in page.headers


def test_a_failure_inside_is_one_sentence(taken, monkeypatch, capsys):
    model = adapter_for(taken)
    monkeypatch.setattr(model, "recommend", lambda *a: 1 / 0)
    with TestClient(make_app(model), base_url="http://localhost", raise_server_exceptions=False) as client:
        answer = client.get("/api/recommend?user=u1")
        assert answer.status_code == 500
        assert "ZeroDivisionError" not in answer.text
        assert client.get("/api/model").status_code == 200
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_models_that_recommend_nothing_are_refused():
    table = lr.TableImputer(method="low-rank", rank=1, regularization=1.0).fit(np.arange(12.0).reshape(4, 3))
    with pytest.raises(FileError, match="TableImputer"):
        adapter_for(table)


def test_titles(tmp_path):
    pytest.importorskip("polars")
    path = tmp_path / "films.csv"
    path.write_text("year,film,title\n1999,7,Seven\n2001,8,Eight\n")
    assert titles_from(path, "film") == {"7": "Seven", "8": "Eight"}
    path.write_text("key,words\n7,Seven\n")
    assert titles_from(path, "film") == {"7": "Seven"}
    path.write_text(
        'key,words\n7,Seven\n8,\n9,"  "\n,Nobody\n10,"Ten, or <b>X</b>"\n'
    )  # one without a title is shown by its id
    assert titles_from(path, None) == {"7": "Seven", "10": "Ten, or <b>X</b>"}
    path.write_text("key,words\n7,Seven,8\n")
    with pytest.raises(FileError, match="line 2: 3 fields where the first line has 2"):
        titles_from(path, None)
    path.write_text("1,2\n3,4\n")
    with pytest.raises(FileError, match="ids and of titles"):
        titles_from(path, None)


def test_addresses():
    assert [is_local(host) for host in ("127.0.0.1", "localhost", "::1", "127.3.2.1")] == [True] * 4
    assert [is_local(host) for host in ("0.0.0.0", "::", "192.168.1.2", "example.org", "")] == [False] * 5
    with listen("127.0.0.1", 0) as one:
        port = one.getsockname()[1]
        with pytest.raises(FileError, match="Try another --port"):
            listen("127.0.0.1", port)
    with pytest.raises(ValueError, match=r"host|cannot listen"):
        listen("no.such.host.invalid", 1)


@pytest.fixture
def running(taken):
    """The real server on a free port of this machine."""
    with listen("127.0.0.1", 0) as waiting:
        server = make_server(make_app(adapter_for(taken)))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [waiting]})
        thread.start()
        yield waiting.getsockname()
        server.should_exit = True
        thread.join()


def spoken(address, raw: bytes) -> bytes:
    with socket.create_connection(address, timeout=60) as line:
        line.sendall(raw)
        parts = []
        while part := line.recv(1 << 16):
            parts.append(part)
        return b"".join(parts)


def test_the_real_server_survives_what_is_no_request(running):
    port = running[1]
    good = f"GET /api/model HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
    for raw in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET /api/model HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * (1 << 17) + b"\r\n\r\n",
        b"POST /api/recommend-for HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/recommend-for HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ):
        try:
            answer = spoken(running, raw)
        except ConnectionError:  # it hung up before all was said
            answer = b"HTTP/1.1 4"
        assert answer.startswith(b"HTTP/1.1 4"), raw[:40]
        assert spoken(running, good).startswith(b"HTTP/1.1 200")
    outside = b"GET /../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert spoken(running, outside).startswith(b"HTTP/1.1 404")


HALF_A_BODY = b"POST /api/recommend-for HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{"


@pytest.mark.parametrize("half", [b"", b"GET /api/mod", HALF_A_BODY])
def test_half_sent_requests_do_not_lock_others_out(running, monkeypatch, half):
    monkeypatch.setattr("lorank.serve.server.READ_TIMEOUT", 0.5, raising=False)
    good = f"GET /api/model HTTP/1.1\r\nHost: 127.0.0.1:{running[1]}\r\nConnection: close\r\n\r\n".encode()
    lines = [socket.create_connection(running, timeout=20) for _ in range(70)]
    try:
        for line in lines:
            line.sendall(half)
        assert spoken(running, good).startswith(b"HTTP/1.1 200")
        assert lines[0].recv(1 << 16) == b""  # closed by the server
    finally:
        for line in lines:
            line.close()


def test_many_requests_at_once_are_all_answered(running):
    good = f"GET /api/recommend?user=ann HTTP/1.1\r\nHost: 127.0.0.1:{running[1]}\r\nConnection: close\r\n\r\n".encode()
    lines = [socket.create_connection(running, timeout=60) for _ in range(200)]
    for line in lines:
        line.sendall(good)
    answers = [line.recv(15) for line in lines]
    for line in lines:
        line.close()
    assert {answer.split()[1] for answer in answers} <= {b"200", b"404"}


def test_limits_are_as_documented():
    assert (module.MAX_ENTRIES, module.MAX_ITEMS, module.MAX_BODY, module.MAX_QUERY) == (100, 200, 65536, 4096)
