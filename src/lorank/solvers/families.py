"""Table of the solvers with names: composition, cost, memory, needs and reference."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """A solver with a name.

    Attributes
    ----------
    name : str
        For ``solve(problem, rank, solver=name)``.
    composition : str
        The solver as an object.
    cost : str
        Work of an iteration, in gradients (a pass over m measurements and products with thin arrays) and passes.
    memory : str
        Beyond the point, the gradient and the data.
    needs : str
        What the problem must have; anything else is refused by name.
    reference : str
        Key of the publication in ``docs/references.bib``; empty for solvers of this library.
    """

    name: str
    composition: str
    cost: str
    memory: str
    needs: str
    reference: str


ANY, MATRIX, MATRICES, FACTORS = "any model", "matrices", "fixed-rank matrices", "matrices, least squares, two factors"
RGD_COST, RGD_MEMORY = "1 gradient", "O((n1 + n2) r)"
NEWTON_COST, ALTERNATING = "CG on the tangent space, 2 passes a step", "2 gradients, 2 passes"
EXACT_COST, FACTOR_MEMORY = "1 gradient, 1 pass of rank 2r", "two factors"

FAMILIES = (
    Family("auto", "Auto()", "that of its stages", "O((n1 + n2) r)", ANY, ""),
    Family("rcg", "RCG()", EXACT_COST, "2 tangent vectors", ANY, "vandereycken2013"),
    Family("r3mc", "Factored(conjugate=True)", "1 gradient, passes of rank 2r and r", "6 factors", FACTORS, "mishra2014r3mc"),
    Family("gauss-newton", "GaussNewton()", NEWTON_COST, "5 tangent vectors", MATRIX, "luo2023risro"),
    Family("rgn", "GaussNewton()", NEWTON_COST, "5 tangent vectors", MATRIX, "luo2023risro"),
    Family("prgd", "RGD(RowColumn(), Constant(0.7))", "1 gradient and its row norms", RGD_MEMORY, MATRICES, "bian2023prgd"),
    Family("adaptive-prgd", "RGD(RowColumn(), Exact())", EXACT_COST + " and row norms", RGD_MEMORY, MATRICES, "bian2023prgd"),
    Family("rgd", "RGD(Canonical(), Constant(0.5))", RGD_COST, RGD_MEMORY, ANY, "vandereycken2013"),
    Family("adaptive-rgd", "RGD(Canonical(), Exact())", EXACT_COST, RGD_MEMORY, ANY, "vandereycken2013"),
    Family(
        "shampoo",
        "RGD(Shampoo(RelativeMax(1.0)), Constant(0.7))",
        "1 gradient and its row norms",
        "n1 + n2",
        MATRICES,
        "gupta2018shampoo",
    ),
    Family("scaledgd", "Factored(step_size=0.5)", RGD_COST, FACTOR_MEMORY, FACTORS, "tong2021scaledgd"),
    Family(
        "scaledgd-lambda",
        'Factored(damping="constant", damping_factor=0.01, step_size=0.5)',
        RGD_COST,
        FACTOR_MEMORY,
        FACTORS,
        "xu2023scaledgdlambda",
    ),
    Family("precgd", 'Factored(damping="residual", step_size=0.5)', RGD_COST, FACTOR_MEMORY, FACTORS, "zhang2021precgd"),
    Family(
        "altscaledgd", "Factored(alternating=True, step_size=0.7)", "2 gradients", FACTOR_MEMORY, FACTORS, "jia2023altscaledgd"
    ),
    Family(
        "asd",
        "Factored(preconditioned=False, alternating=True)",
        "2 gradients, 2 passes",
        FACTOR_MEMORY,
        FACTORS,
        "tanner2016asd",
    ),
    Family("scaled-asd", "Factored(alternating=True)", ALTERNATING, FACTOR_MEMORY, FACTORS, "tanner2016asd"),
    Family("niht", "NIHT()", "1 gradient, truncated SVD, 1 pass", "3 blocks of r vectors", MATRIX, "tanner2013niht"),
    Family("iht", "IHT()", "1 gradient, truncated SVD", "3 blocks of r vectors", MATRIX, "jain2010svp"),
)


def families() -> tuple[Family, ...]:
    """The solvers with names.

    Returns
    -------
    tuple of Family
        With the fields name, composition, cost, memory, needs and reference.

    Examples
    --------
    >>> import lorank as lr
    >>> next(one.composition for one in lr.solvers.families() if one.name == "scaledgd")
    'Factored(step_size=0.5)'
    """
    return FAMILIES


def markdown_table() -> str:
    """The table in MyST Markdown."""
    head = "| name | composition | an iteration | memory | needs | reference |\n|---|---|---|---|---|---|"
    lines = []
    for one in FAMILIES:
        citation = f"{{cite}}`{one.reference}`" if one.reference else ""
        lines.append(f"| `{one.name}` | `{one.composition}` | {one.cost} | {one.memory} | {one.needs} | {citation} |")
    return "\n".join([head, *lines])
