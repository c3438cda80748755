"""One file a method: ``run(data, setting, threads, tolerances, budget, repeats)``, ``version()``, the ``GRID`` it is tuned on.

``run`` returns ``{"runs": [...], "best": ..., "effort": ...}``: for each repeat seconds and steps to each tolerance (or None),
the smallest error that was seen at all, and the seconds of the longest try. A new peer is one new file here and a line in
``run.py``.
"""
