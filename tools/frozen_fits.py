"""The fits and commands of ``tools/frozen.py``, on small seeded data.

``FITS`` has how an estimator is fitted, and what it is asked then: before it is saved, after it is loaded, and of a file that
an earlier commit wrote. ``COMMANDS`` are chains that run one after the other in a folder with the files of
:func:`write_tables`. Only public names of lorank are used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import lorank as lr


class Fit(NamedTuple):
    fit: Callable[[], Any]
    ask: Callable[[Any], dict[str, Any]]  # numbers and arrays, by name


FITS: dict[str, Fit] = {}

# ------------------------------------------------------------------------------------------------------------------ ratings


def ratings() -> tuple[np.ndarray, np.ndarray]:
    """Pairs of row and column with one to five stars."""
    problem, _ = lr.datasets.random_completion(60, 40, 2, oversampling=5, factors="gaussian", noise=0.1, seed=1)
    return np.column_stack([problem.rows, problem.cols]), np.clip(np.round(3 + problem.y), 1, 5)


def rating_frame() -> pd.DataFrame:
    pairs, stars = ratings()
    times = np.random.default_rng(2).integers(0, 10**6, len(stars))
    users, items = ([f"{kind}{k:02}" for k in side] for kind, side in zip("ui", pairs.T, strict=True))
    return pd.DataFrame({"user": users, "item": items, "stars": stars, "time": times})


def user_frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    ages, jobs = rng.integers(18, 80, 60), np.array(["cook", "smith", "clerk"])[rng.integers(0, 3, 60)]
    return pd.DataFrame({"user": [f"u{k:02}" for k in range(60)], "age": ages, "job": jobs})


def asked_pairs() -> np.ndarray:
    return np.column_stack([np.arange(120) % 60, np.arange(120) * 7 % 40])


def ask_ratings(model: Any, pairs: Any, rows: Any) -> dict[str, Any]:
    low, high = model.predict_interval(pairs, coverage=0.8)
    found = {"predict": model.predict(pairs), "low": low, "high": high, "known": model.known(pairs)}
    for by in ("affinity", "rating"):
        items, predictions = model.recommend(rows, n=5, by=by)
        found |= {f"recommended by {by}": items, f"their predictions by {by}": predictions}
    return found


def ask_numbers(model: Any) -> dict[str, Any]:
    return ask_ratings(model, asked_pairs(), [0, 7, 31])


def ask_ids(model: Any) -> dict[str, Any]:
    users, items = ([f"{kind}{k:02}" for k in side] for kind, side in zip("ui", asked_pairs().T, strict=True))
    found = ask_ratings(model, pd.DataFrame({"user": users, "item": items}), ["u03", "u17"])
    return found | {"similar items": model.similar_items("i05", 4), "similar users": model.similar_users("u05", 4)}


def ask_classes(model: Any) -> dict[str, Any]:
    found = {"predict": model.predict(asked_pairs()), "probabilities": model.predict_proba(asked_pairs())}
    return found | {"recommended": model.recommend([0, 7], n=5)}


def add_ratings(name: str, ask: Callable[[Any], dict[str, Any]] = ask_numbers, **options: Any) -> None:
    FITS[f"completion_{name}"] = Fit(lambda: lr.MatrixCompletion(ranking=True, **options).fit(*ratings()), ask)


add_ratings("default", intervals=True)
add_ratings("rank", rank=3, regularization=1.0, intervals=True)
add_ratings("learned", rank=2, regularization="learned", intervals=True)
add_ratings("folds", rank="auto", regularization=0.5, cv=3, biases=False, intervals=True)
add_ratings("frobenius", rank=3, regularization="auto", penalty="frobenius", intervals=True)
add_ratings("robust", loss="robust", intervals=True)
add_ratings("huber", rank=2, loss="huber", intervals=True)
add_ratings("nonnegative", rank=2, nonnegative=True, intervals=True)
add_ratings("bounds", rank=2, regularization="learned", random_state=5, bounds=(1, 5), intervals=True)
add_ratings("ordinal", ask_classes, rank=2, loss="ordinal")


def with_ids(**options: Any) -> Any:
    model = lr.MatrixCompletion(intervals=True, rank=2, ranking=True, **options)
    return model.fit(rating_frame()[["user", "item", "stars"]], rows="user", cols="item", values="stars")


def with_features() -> Any:
    frame, users = rating_frame()[["user", "item", "stars"]], user_frame()
    warm = frame["user"] < "u50"
    model = lr.MatrixCompletion(rank=2, regularization="learned", intervals=True, ranking=True)
    return model.fit(frame[warm], rows="user", cols="item", values="stars", row_features=users)


def continued() -> Any:
    pairs, stars = ratings()
    first = pairs[:, 0] < 50
    model = lr.MatrixCompletion(rank=2, regularization="learned", intervals=True).fit(pairs[first], stars[first])
    return model.partial_fit(pairs[~first], stars[~first]).fit_ranking()


FITS["completion_ids"] = Fit(with_ids, ask_ids)
FITS["completion_features"] = Fit(with_features, ask_ids)
FITS["completion_partial_fit"] = Fit(continued, ask_numbers)

# -------------------------------------------------------------------------------------------------------------- interactions


def ask_implicit(model: Any) -> dict[str, Any]:
    items, scores = model.recommend([0, 7, 31], n=5)
    found = {"recommended": items, "scores": scores, "predict": model.predict(asked_pairs())}
    return found | {"similar items": model.similar_items(5, 4), "similar users": model.similar_users(5, 4)}


def add_implicit(name: str, **options: Any) -> None:
    FITS[f"implicit_{name}"] = Fit(lambda: lr.ImplicitFactorization(**options).fit(*ratings()), ask_implicit)


def continued_implicit() -> Any:
    pairs, taken = ratings()
    first = pairs[:, 0] < 50
    model = lr.ImplicitFactorization(rank=6, regularization=0.05).fit(pairs[first], taken[first])
    return model.partial_fit(pairs[~first], taken[~first])


add_implicit("default", rank=6)
add_implicit("given", rank=6, regularization=0.05, zeros=1.0, confidence="counts")
add_implicit("nonnegative", rank=4, regularization=0.05, zeros=1.0, nonnegative=True)
FITS["implicit_partial_fit"] = Fit(continued_implicit, ask_implicit)

# ------------------------------------------------------------------------------------------------------------------- tables


def with_gaps(values: np.ndarray, share: float, seed: int) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(values.shape) < share, np.nan, values)


def numbers() -> np.ndarray:
    rng = np.random.default_rng(5)
    values = rng.standard_normal((150, 3)) @ rng.standard_normal((3, 6)) + 0.1 * rng.standard_normal((150, 6))
    return with_gaps(values, 0.15, 6)


def mixed() -> pd.DataFrame:
    """Numbers, whole numbers and categories."""
    frame = pd.DataFrame(numbers(), columns=list("abcdef"))
    frame["a"], frame["b"] = np.exp(frame["a"]), np.round(3 * frame["b"])
    kinds = np.array(["red", "green", "blue"], object)[np.nan_to_num(frame["c"]).astype(int) % 3]
    kinds[np.random.default_rng(7).random(len(frame)) < 0.1] = None
    return frame.assign(kind=kinds)


def series() -> pd.DataFrame:
    """Hourly, with a daily period and a blackout."""
    hours, rng = np.arange(240), np.random.default_rng(8)
    waves = np.column_stack([np.sin(2 * np.pi * hours / 24), np.cos(2 * np.pi * hours / 24), np.linspace(0, 1, len(hours))])
    values = with_gaps(waves @ rng.standard_normal((3, 4)) + 0.05 * rng.standard_normal((len(hours), 4)), 0.1, 9)
    values[100:110] = np.nan
    return pd.DataFrame(values, columns=list("wxyz")).assign(date=pd.Timestamp("2024-01-01") + pd.to_timedelta(hours, "h"))


def add_table(name: str, make: Callable[[], Any], table: Callable[[], Any], intervals: bool = True) -> None:
    def ask(model: Any) -> dict[str, Any]:
        found = {"filled": model.transform(table())}
        if intervals:
            found["low"], found["high"] = model.predict_interval(table(), 0.8)
        return found

    FITS[name] = Fit(lambda: make().fit(table()), ask)


add_table("table_numbers", lr.TableImputer, numbers)
add_table("table_mixed", lr.TableImputer, mixed)
add_table("table_linear", lambda: lr.TableImputer(refine="none"), mixed)
add_table("table_trees", lambda: lr.TableImputer(refine="trees"), numbers)
add_table("table_series", lambda: lr.TableImputer(time="date"), series)
add_table("table_series_rows", lambda: lr.TableImputer(time=True), lambda: series().drop(columns="date").to_numpy())
add_table("low_rank_imputer", lambda: lr.TableImputer(method="low-rank"), numbers, intervals=False)
add_table(
    "low_rank_imputer_rank",
    lambda: lr.TableImputer(method="low-rank", rank=3, regularization=0.5),
    numbers,
    intervals=False,
)

# ----------------------------------------------------------------------------------------------------------------- commands


def write_tables(folder: Path) -> None:
    rating_frame().to_csv(folder / "ratings.csv", index=False)
    user_frame().to_csv(folder / "users.csv", index=False)
    pairs = [[f"u{row:02}", f"i{col:02}"] for row, col in asked_pairs()[:30]]
    pd.DataFrame([*pairs, ["nobody", "i05"]], columns=["user", "item"]).to_csv(folder / "pairs.csv", index=False)
    mixed().to_csv(folder / "table.csv", index=False)
    series().to_csv(folder / "series.csv", index=False)


IDS = "--row user --col item"
FIT = f"complete ratings.csv {IDS} --value stars -o model.lorank --json"
PREDICT = "predict model.lorank pairs.csv -o predicted.csv --json"
COMMANDS: dict[str, list[str]] = {
    "ratings": [
        FIT,
        f"{PREDICT} --interval 0.9",
        "recommend model.lorank --row u03 -n 5 --json",
        "recommend model.lorank --row u03 --order-by rating --include-seen --json",
        "recommend model.lorank --all -n 3 -o top.csv --json",
    ],
    "learned": [f"{FIT} --rank 2 --regularization learned --seed 3", PREDICT],
    "ordinal": [f"{FIT} --rank 2 --loss ordinal", PREDICT],
    "robust": [f"{FIT} --rank 2 --loss robust", PREDICT],
    "features": [f"{FIT} --rank 2 --row-features users.csv", PREDICT],
    "large": [f"{FIT} --rank 2 --max-memory 1GB", PREDICT],
    "implicit": [
        f"complete ratings.csv {IDS} --implicit -o model.lorank --json",
        "recommend model.lorank --row u03 -n 5 --json",
    ],
    "evaluate": [f"evaluate ratings.csv {IDS} --value stars --json"],
    "evaluate_time": [f"evaluate ratings.csv {IDS} --value stars --time time -n 5 --json"],
    "evaluate_implicit": [f"evaluate ratings.csv {IDS} --implicit --json"],
    "diagnose": [
        f"diagnose ratings.csv {IDS} --value stars --json",
        f"diagnose ratings.csv {IDS} --value stars --rank 2 --json",
    ],
    "impute": ["impute table.csv -o filled.csv --model model.lorank --json"],
    "impute_rank": ["impute table.csv -o filled.csv --rank 2 --json"],
    "impute_series": ["impute series.csv -o filled.csv --time date --json"],
    "refused": ["complete missing.csv -o model.lorank --json", "predict users.csv pairs.csv -o predicted.csv --json"],
}
