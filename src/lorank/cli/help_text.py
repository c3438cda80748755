"""What ``lorank`` alone says, and the examples in the help of its commands."""

from __future__ import annotations

WELCOME = """\
lorank recovers a matrix of low rank from a few of its entries, or from other
measurements of it.

With a file in hand:
  lorank diagnose ratings.csv             are these ratings enough for a model?
  lorank complete ratings.csv -o model.lorank --report page.html
                                          fit a model to them, and write a page
  lorank complete clicks.csv --implicit -o model.lorank
                                          the same of who took what, no ratings
  lorank recommend model.lorank --row 42  the best items for user 42
  lorank predict model.lorank pairs.csv -o out.csv --interval 0.9
                                          predictions with bounds
  lorank serve model.lorank               a page for people to try the model
  lorank evaluate ratings.csv             is a model worth it?
  lorank inspect model.lorank             what a model file holds
  lorank impute table.csv -o filled.csv   fill the gaps of a table
  lorank impute series.csv -o filled.csv --time date
                                          the same of a series in time

Without one:
  lorank demo                             five solvers find a matrix: watch them
  lorank demo ratings                     a story and a picture; also table,
                                          phase, image
  lorank doctor                           what is installed, what is missing
  lorank reproduce --list                 the paper's experiments

lorank COMMAND --help says more, with examples.
lorank --install-completion: commands, options and files at Tab in your shell.
"""

# Shown at the end of a command's help. The tests parse each of them.
EXAMPLES = {
    "demo": [
        "lorank demo",
        "lorank demo ratings",
        "lorank demo phase --out phase.png",
        "lorank demo --n 10000 --rank 20",
    ],
    "reproduce": ["lorank reproduce --list", "lorank reproduce all --jobs 2", "lorank reproduce completion-size --scale paper"],
    "complete": [
        "lorank complete ratings.csv -o model.lorank --report page.html",
        "lorank complete a.csv b.csv --row who --col what --value stars -o m.lorank",
        "lorank complete ratings.parquet --loss ordinal -o model.lorank",
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
    ],
    "serve": ["lorank serve model.lorank", "lorank serve model.lorank --titles films.csv --port 9000"],
    "doctor": ["lorank doctor", "lorank doctor --json"],
}


def epilog(command: str) -> str | None:
    """The examples as the end of a help page: blank lines keep them apart."""
    lines = EXAMPLES.get(command)
    return None if not lines else "Examples:\n\n" + "\n\n".join(f"  {line}" for line in lines)
