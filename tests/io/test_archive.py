"""Files are written completely or not at all, also by several threads and past links; leftovers are removed."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest

from lorank.io import archive
from lorank.io.archive import FileError, atomic, read_archive, write_archive

posix = pytest.mark.skipif(os.name == "nt", reason="modes and links of POSIX")


def test_threads_that_save_to_one_path_leave_a_complete_file(tmp_path):
    path, errors = tmp_path / "m.lorank", []

    def save(k):
        try:
            for _ in range(20):
                write_archive(path, "model", {"k": k}, {"a": np.full(2000, k)})
                _, meta, arrays = read_archive(path)
                assert (arrays["a"] == meta["k"]).all()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=save, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert os.listdir(tmp_path) == ["m.lorank"]


def test_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("old")
    for error in (KeyboardInterrupt, ValueError):
        with pytest.raises(error), atomic(path):
            raise error
    with pytest.raises(FileError, match=r"t\.csv"), atomic(path):
        raise OSError(28, "No space left on device")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["t.csv"]


@posix
@pytest.mark.parametrize("folder", [False, True])
def test_content_is_on_the_disk_before_it_has_its_name_and_the_name_after(tmp_path, monkeypatch, folder):
    path, events = tmp_path / "t", []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append(os.fstat(handle).st_ino), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append("replaced"), replace(a, b)))
    with atomic(path, folder=folder) as temporary:
        (temporary / "a" if folder else temporary).write_text("new")
    content = (path / "a" if folder else path).stat().st_ino
    assert events.index(content) < events.index("replaced") < events.index(tmp_path.stat().st_ino)


@posix
def test_a_replaced_file_keeps_its_mode(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("old")
    path.chmod(0o640)
    with atomic(path) as temporary:
        temporary.write_text("new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o640)


@posix
def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic(tmp_path / "t.csv") as temporary:
            temporary.write_text("new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "t.csv").stat().st_mode) == 0o640


@posix
def test_the_link_of_a_user_is_followed(tmp_path):
    (tmp_path / "data").mkdir()
    target, link = tmp_path / "data" / "t.csv", tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)
    with atomic(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


@posix
def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    """Even where its name was guessed."""
    monkeypatch.setattr(archive.secrets, "token_hex", lambda n: "0" * 2 * n)
    with atomic(tmp_path / "t.csv") as temporary:
        name = temporary.name
    (tmp_path / "t.csv").unlink()
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / name).symlink_to(tmp_path / "victim")
    with pytest.raises(FileError), atomic(tmp_path / "t.csv") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "victim").read_text() == "untouched"


@posix
@pytest.mark.parametrize("folder", [False, True])
def test_leftovers_of_a_killed_process_are_removed_by_the_next_one(tmp_path, folder):
    code = (
        "import os, sys\nfrom lorank.io.archive import atomic\n"
        f"with atomic(sys.argv[1], folder={folder}) as temporary:\n    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "t")], check=False)
    assert len(os.listdir(tmp_path)) == 1
    with atomic(tmp_path / "t", folder=folder) as temporary:
        assert temporary.exists()
    assert os.listdir(tmp_path) == ["t"]


def test_temporary_files_of_running_processes_stay(tmp_path):
    with atomic(tmp_path / "t.csv") as first:
        with atomic(tmp_path / "t.csv") as second:
            second.write_text("second")
        first.write_text("first")
    assert (tmp_path / "t.csv").read_text() == "first"


def forged(path, members):
    """A lorank file of these members, with sums that are right."""
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in members.items())
    with zipfile.ZipFile(path, "w") as file:
        for name, content in {**members, "SHA256SUMS": sums.encode()}.items():
            file.writestr(name, content)
    return path


def header(**changes):
    content = {"format": archive.FORMAT, "version": archive.VERSION, "kind": "model", "lorank": "1", "meta": {}}
    return json.dumps(content | changes).encode()


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("<U0", (2**40,)),
        ("<U0", (3,)),
        ("|S0", (2**40,)),
        ("<f8", (2**40,)),
        ("<f8", (2**70,)),
        ("|u1", (5,)),
        ("|V0", (2**30,)),
    ],
)
def test_arrays_whose_size_is_forged_are_refused(tmp_path, dtype, shape):
    """Arrays of nothing have any number of entries."""
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape})
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    array = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(0 if dtype.endswith("0") else 16)
    with pytest.raises(FileError, match=r"a\.npy"):
        read_archive(forged(tmp_path / "x", {"meta.json": header(), "a.npy": array}))


@pytest.mark.parametrize("version", [-5, 0, True, False, 2.0, None])
def test_versions_that_are_none_are_refused(tmp_path, version):
    with pytest.raises(FileError, match="not a lorank file"):
        read_archive(forged(tmp_path / "x", {"meta.json": header(version=version)}))


@posix
def test_leftovers_of_a_killed_build_of_partitions_are_removed(tmp_path):
    code = (
        "import os, sys, numpy as np\nfrom lorank.distributed.building import write_folder\n"
        "with write_folder(sys.argv[1], 3, np.float32, False):\n    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "t")], check=False)
    assert len(os.listdir(tmp_path)) == 1
    with atomic(tmp_path / "t", folder=True) as work:
        assert os.listdir(tmp_path) == [work.name]


@posix
@pytest.mark.parametrize("name", ["o.csv", "o.parquet"])
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path, name):
    """As a limit of the size of files; polars has errors of its own."""
    pytest.importorskip("polars")
    code = (
        "import resource, signal, sys, numpy as np, pathlib\nfrom lorank.cli.output import table_writer\n"
        "from lorank.io.archive import FileError\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\ntry:\n"
        "    with table_writer(pathlib.Path(sys.argv[1])) as write:\n        write({'a': np.random.rand(9999)})\n"
        "except FileError as error:\n    assert sys.argv[1] in str(error)\nelse:\n    sys.exit('written')\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], check=True)
    assert os.listdir(tmp_path) == []
