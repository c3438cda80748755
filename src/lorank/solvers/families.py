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
FRAME, MATRIX_SQUARES = "matrices, tight frame, least squares, two factors", "matrices, least squares"
RGD_COST, RGD_MEMORY = "1 gradient", "O((n1 + n2) r)"
NEWTON_COST, NEWTON_MEMORY = "CG on the tangent space, 2 passes a step", "5 tangent vectors"
EXACT_COST, FACTOR_MEMORY, TWO_TANGENTS = "1 gradient, 1 pass of rank 2r", "two factors", "2 tangent vectors"
ALTERNATING, KRYLOV, SHAMPOO = "2 gradients, 2 passes", "3 blocks of r vectors", "RGD(Shampoo(RelativeMax(1.0)), Constant(0.7))"
LAMBDA = 'Factored(damping="constant", damping_factor=0.01, step_size=0.5)'
RTRMC_COST = "1 gradient, 2 normal equations; a step of CG: 2 passes, 3 products, 1 normal equation"

FAMILIES = tuple(
    Family(*row)
    for row in (
        ("auto", "Auto()", "that of its stages", RGD_MEMORY, ANY, ""),
        ("rcg", "RCG()", EXACT_COST, TWO_TANGENTS, ANY, "mishra2014r3mc"),
        ("lrgeomcg", "RCG(Canonical())", EXACT_COST, TWO_TANGENTS, ANY, "vandereycken2013"),
        ("r3mc", "Factored(conjugate=True)", "1 gradient, passes of rank 2r and r", "6 factors", FACTORS, "mishra2014r3mc"),
        ("gauss-newton", "GaussNewton()", NEWTON_COST, NEWTON_MEMORY, MATRIX, "luo2023risro"),
        ("rgn", "GaussNewton()", NEWTON_COST, NEWTON_MEMORY, MATRIX, "luo2023risro"),
        ("risro", 'GaussNewton(retraction="orthographic")', NEWTON_COST, NEWTON_MEMORY, FACTORS, "luo2023risro"),
        ("gnmr", "GNMR()", NEWTON_COST, NEWTON_MEMORY + ", two factors", FACTORS, "zilber2022gnmr"),
        ("r2rils", "R2RILS()", NEWTON_COST, NEWTON_MEMORY + ", two factors", FACTORS, "bauch2021r2rils"),
        ("rtrmc", "RTRMC()", RTRMC_COST, "8 left factors", "completion, least squares", "boumal2015rtrmc"),
        ("irls", "IRLS()", NEWTON_COST, NEWTON_MEMORY, "matrices, tight frame", "kummerle2021irls"),
        ("prgd", "RGD(RowColumn(), Constant(0.7))", "1 gradient and its row norms", RGD_MEMORY, MATRICES, "bian2023prgd"),
        ("adaptive-prgd", "RGD(RowColumn(), Exact())", EXACT_COST + " and row norms", RGD_MEMORY, MATRICES, "bian2023prgd"),
        ("rgd", "RGD(Canonical(), Constant(0.5))", RGD_COST, RGD_MEMORY, ANY, "wei2016rgrad"),
        ("adaptive-rgd", "RGD(Canonical(), Exact())", EXACT_COST, RGD_MEMORY, ANY, "wei2016rgrad"),
        ("shampoo", SHAMPOO, "1 gradient and its row norms", "n1 + n2", MATRICES, "gupta2018shampoo"),
        ("scaledgd", "Factored(step_size=0.5)", RGD_COST, FACTOR_MEMORY, FACTORS, "tong2021scaledgd"),
        ("scaledgd-lambda", LAMBDA, RGD_COST, FACTOR_MEMORY, FACTORS, "xu2023scaledgdlambda"),
        ("precgd", 'Factored(damping="residual", step_size=0.5)', RGD_COST, FACTOR_MEMORY, FACTORS, "zhang2021precgd"),
        (
            "altscaledgd",
            "Factored(alternating=True, step_size=0.7)",
            "2 gradients",
            FACTOR_MEMORY,
            FACTORS,
            "jia2023altscaledgd",
        ),
        ("asd", "Factored(preconditioned=False, alternating=True)", ALTERNATING, FACTOR_MEMORY, FACTORS, "tanner2016asd"),
        ("scaled-asd", "Factored(alternating=True)", ALTERNATING, FACTOR_MEMORY, FACTORS, "tanner2016asd"),
        ("niht", "NIHT()", "1 gradient, truncated SVD, 1 pass", KRYLOV, MATRIX, "tanner2013niht"),
        ("iht", "IHT()", "1 gradient, truncated SVD", KRYLOV, MATRIX, "jain2010svp"),
        (
            "cgiht",
            "CGIHT()",
            "1 gradient, truncated SVD, 2 products, 2 passes",
            KRYLOV + ", 2 vectors of m",
            MATRIX_SQUARES,
            "blanchard2015cgiht",
        ),
        ("lmafit", "LMaFit()", "1 gradient, 1 product", FACTOR_MEMORY, FRAME, "wen2012lmafit"),
        ("als", "ALS()", "2 gradients, 2 normal equations", FACTOR_MEMORY, "completion with ALS kernels", "jain2013altmin"),
        ("softimpute", "SoftImpute()", "1 gradient, truncated SVD", KRYLOV, FRAME, "mazumder2010softimpute"),
        ("softimpute-als", "SoftImpute(alternating=True)", "2 gradients", FACTOR_MEMORY, FRAME, "hastie2015softimputeals"),
    )
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
