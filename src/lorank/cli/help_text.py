"""Text of ``lorank`` without a command, and the examples on the help pages."""

from __future__ import annotations

WELCOME = """\
lorank: low-rank matrix completion for ratings, implicit feedback and tables.

Ratings:
  lorank diagnose ratings.csv             check whether the ratings suffice
  lorank complete ratings.csv -o model.lorank --report page.html
                                          fit a model and write a report
  lorank complete clicks.csv --implicit -o model.lorank
                                          the same for implicit feedback
  lorank recommend model.lorank --row 42  recommend items to user 42
  lorank predict model.lorank pairs.csv -o out.csv --interval 0.9
                                          predict with 90 % intervals
  lorank evaluate ratings.csv             compare a model with baselines
  lorank serve model.lorank               start a web page for the model
  lorank inspect model.lorank             show the content of a model file

Tables:
  lorank impute table.csv -o filled.csv   fill missing values
  lorank impute series.csv -o filled.csv --time date
                                          the same for a time series
  lorank complete data.csv --columns sensor,day,hour --filled filled.csv
                                          the same for three or more keys

Without data:
  lorank demo                             compare five solvers
  lorank demo ratings                     demo with a plot; also table, phase,
                                          image
  lorank doctor                           check the installation
  lorank reproduce --list                 list the paper's experiments
  lorank bench experiment.py              compare solvers on your problems

Run lorank COMMAND --help for options and examples, and
lorank --install-completion for shell completion.
"""

# Shown at the end of a command's help page; tests parse each of them.
EXAMPLES = {
    "demo": [
        "lorank demo",
        "lorank demo ratings",
        "lorank demo phase --out phase.png",
        "lorank demo --n 10000 --rank 20",
    ],
    "reproduce": ["lorank reproduce --list", "lorank reproduce all --jobs 2", "lorank reproduce completion-size --scale paper"],
    "bench": ["lorank bench experiment.py", "lorank bench experiment.py --out results --jobs 4 --formats pdf,svg"],
    "complete": [
        "lorank complete ratings.csv -o model.lorank --report page.html",
        "lorank complete a.csv b.csv --row who --col what --value stars -o m.lorank",
        "lorank complete ratings.parquet --loss ordinal -o model.lorank",
        "lorank complete data.csv --columns sensor,day,hour --filled filled.csv",
    ],
    "predict": [
        "lorank predict model.lorank pairs.csv -o out.csv",
        "lorank predict model.lorank pairs.csv -o out.csv --interval 0.9",
    ],
    "recommend": [
        "lorank recommend model.lorank --row 42",
        "lorank recommend model.lorank --row anna -n 5 --json",
        "lorank recommend model.lorank --all -o top.csv",
    ],
    "diagnose": ["lorank diagnose ratings.csv", "lorank diagnose ratings.csv --rank 20"],
    "inspect": ["lorank inspect model.lorank"],
    "evaluate": [
        "lorank evaluate ratings.csv",
        "lorank evaluate ratings.csv --time timestamp",
        "lorank evaluate ratings.csv --report page.html",
    ],
    "impute": [
        "lorank impute table.csv -o filled.csv",
        "lorank impute series.csv -o filled.csv --time date",
        "lorank impute table.csv -o filled.csv --model model.lorank",
        "lorank impute table.csv -o filled.csv --report page.html",
        "lorank impute new.csv -o filled.csv --use-model model.lorank",
    ],
    "serve": ["lorank serve model.lorank", "lorank serve model.lorank --titles films.csv --port 9000"],
    "doctor": ["lorank doctor", "lorank doctor --json"],
}


def epilog(command: str) -> str | None:
    """Examples of a command, as the end of its help page."""
    lines = EXAMPLES.get(command)
    return None if not lines else "Examples:\n\n" + "\n\n".join(f"  {line}" for line in lines)
