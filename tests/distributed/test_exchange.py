"""All-reduce: the bits of the tree over the blocks for any number of shards and both algorithms."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lorank.distributed import exchange
from lorank.distributed.exchange import AllReduce, Mailbox, WorkerLost
from lorank.distributed.program import TreeSum, assign_blocks, tree_total

BLOCKS = 11


def among(shards, given, rounds=3):
    """Sums of each shard in each round, and the number of messages per round."""
    boxes, sent, lock = [Mailbox() for _ in range(shards)], [], threading.Lock()

    def work(index):
        def send(shard, tag, ranges, arrays):
            with lock:
                sent.append(shard)
            copies = [tuple(a.copy() for a in term) for term in arrays]
            boxes[shard].put(tag, index, (ranges, copies))

        total, found = AllReduce(index, shards, boxes[index], send), []
        for _ in range(rounds):
            own = TreeSum(BLOCKS)
            for block in assign_blocks(BLOCKS, shards)[index]:
                own.add((block, block + 1), tuple(a.copy() for a in given[block]))
            found.append(total(own))
        return found

    with ThreadPoolExecutor(shards) as pool:
        return list(pool.map(work, range(shards))), len(sent) / rounds


@pytest.mark.parametrize("shards", [1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("pairs", [False, True])
def test_both_algorithms_give_the_bits_of_the_tree(shards, pairs, monkeypatch):
    rng = np.random.default_rng(shards)
    arrays = [rng.standard_normal((40, 3)).astype(np.float32) for _ in range(BLOCKS)]
    given = [(a, a[:, 0] ** 2)[: 1 + pairs] for a in arrays]
    expected = (tree_total(arrays), tree_total([a[:, 0] ** 2 for a in arrays]))[: 1 + pairs]
    counts = {}
    for short in (0, 1 << 20):
        monkeypatch.setattr(exchange, "TREE_MAX_BYTES", short)
        found, counts[short] = among(shards, given)
        for shard in found:
            for total in shard:
                for a, b in zip(total, expected, strict=True):
                    np.testing.assert_array_equal(a, b)
                    assert a.flags.writeable
    assert counts == {0: 2 * shards * (shards - 1), 1 << 20: 2 * (shards - 1)}


def test_waiting_ends_when_the_mailbox_is_closed():
    box = Mailbox()
    total = AllReduce(0, 3, box, lambda *letter: None)
    own = TreeSum(BLOCKS)
    own.add((0, 1), (np.ones(4),))
    threading.Timer(0.05, box.close, ("lost",)).start()
    with pytest.raises(WorkerLost, match="lost"):
        total(own)
