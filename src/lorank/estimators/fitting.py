"""What a MatrixCompletion with these parameters is going to fit, refused by name where it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_random_state

from ..common.checks import NOT_NEGATIVE, YES_OR_NO, check
from ..factorization import Settings
from ..factorization.options import check_choice, check_fit_options, check_rank, check_regularization
from ..factorization.selection import COARSE, MANY, RANKS
from ..losses import ROBUST, SQUARES, Loss, resolve_loss
from .inputs import check_bounds

if TYPE_CHECKING:
    from .matrix_completion import MatrixCompletion

SOLVERS = ("auto", "variational", "alternating")
UNKNOWN = ("warn", "ignore", "error")
PARTS = 16  # the largest rank that is tried where factors are not negative: few enough to look at


def is_robust(model: MatrixCompletion) -> bool:
    """Whether gross errors are to be found and left out."""
    return isinstance(model.loss, str) and model.loss == ROBUST


def plan(model: MatrixCompletion, shape: tuple[int, int], m: int) -> tuple[Settings, list[int] | None, str]:
    """The settings, the ranks to try (None: the given one), and which strengths to try."""
    loss = resolve_loss(SQUARES if is_robust(model) else model.loss)
    if model.intervals:
        refuse_intervals(loss)
    check("nonnegative", model.nonnegative, YES_OR_NO)
    check_choice(model.solver, SOLVERS, "solver")
    check_choice(model.penalty, ("nuclear", "frobenius"), "penalty")
    check_choice(model.handle_unknown, UNKNOWN, "handle_unknown")
    check_bounds(model.bounds)
    strength = check_regularization(model.regularization)
    if model.solver == "variational" and isinstance(strength, float):
        raise ValueError(
            f"solver='variational' learns its regularization: leave it at 'auto' or 'learned', or use solver='alternating' "
            f"with {strength}"
        )
    if model.solver == "alternating" and strength == "learned":
        raise ValueError("solver='alternating' needs a strength: a number, or regularization='auto'")
    if model.nonnegative:
        refuse_with_nonnegative(model, strength, loss)
    check_fit_options(model)
    check("count_scaling", model.count_scaling, NOT_NEGATIVE)
    top = min(shape)
    rank = check_rank(model.rank, top)
    biases = bool(model.biases) and not model.nonnegative
    if rank == 0 and model.nonnegative:
        raise ValueError("rank=0 leaves nothing to fit with nonnegative=True, which has no biases: allow a rank of 1")
    if rank == 0 and not biases:
        raise ValueError("rank=0 without biases leaves nothing to fit: allow biases, or a rank of 1")
    ranks = None
    if rank == "auto":
        most = max(1, min(top, m // (2 * sum(shape)) + 2, RANKS[-1]))
        most = min(most, PARTS) if model.nonnegative else most
        ranks = [r for r in (COARSE if m >= MANY else RANKS) if (r or biases) and r <= most]
    learned = isinstance(strength, str) and model.solver != "alternating" and not model.nonnegative
    search = "given"
    if strength == "auto":
        both = learned and model.solver == "auto" and m < MANY
        search = "both" if both else "given" if learned else "path"
    if search == "path" and ranks is not None:  # a path of penalties finds the rank by itself
        rank, ranks = ranks[-1], None
    seed = check_random_state(model.random_state).randint(2**31 - 1)
    settings = Settings(
        rank if isinstance(rank, int) else 1,
        None if learned else 0.0 if isinstance(strength, str) else float(strength),
        "nuclear" if model.penalty == "nuclear" else "frobenius",
        float(model.count_scaling),
        biases,
        tol=float(model.tol),
        max_iter=int(model.max_iter),
        seed=int(seed),
        device=None if model.device is None else str(model.device),
        loss=loss,
        noise="unit" if loss is not None and loss.discrete else "both",
        nonnegative=bool(model.nonnegative),
    )
    return settings, ranks, search


def refuse_with_nonnegative(model: MatrixCompletion, strength: float | str, loss: Loss | None) -> None:
    """What does not go together with factors that are not negative."""
    if model.solver == "variational" or strength == "learned":
        raise ValueError(
            "nonnegative=True has no learned priors: leave solver and regularization at 'auto', which finds a strength on "
            "held-out observations, or give a number"
        )
    if model.penalty != "nuclear":
        raise ValueError("nonnegative=True penalises the squares of factors: leave penalty at 'nuclear'")
    if loss is not None and loss.discrete:
        raise ValueError(
            f"nonnegative=True makes values of parts that add up, and loss={loss.name!r} has them on another scale: use "
            "loss='squares', or leave out nonnegative"
        )


def refuse_negative(model: MatrixCompletion, values: Any) -> None:
    """Values that no sum of parts can be, with nonnegative=True."""
    check("nonnegative", model.nonnegative, YES_OR_NO)
    if not model.nonnegative or not len(values):
        return
    least = float(values.min())
    if least < 0:
        raise ValueError(
            f"nonnegative=True takes values that are not negative, and the least is {least:g}: shift them (subtract the "
            "least), or leave out nonnegative"
        )


def refuse_intervals(loss: Loss | None) -> None:
    """Intervals are for values on a scale: of classes and counts there are probabilities."""
    if loss is None or not loss.discrete:
        return
    instead = "means, of which Poisson's distribution gives them" if loss.name == "poisson" else "predict_proba"
    raise ValueError(f"loss={loss.name!r} has no intervals: leave out intervals=True, and take {instead}")
