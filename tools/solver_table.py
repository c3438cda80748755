"""Write the table of solvers in docs/solvers.md from lorank.solvers.families()."""

import re
from pathlib import Path

from lorank.solvers.families import markdown_table

PAGE = Path(__file__).parents[1] / "docs/solvers.md"
page = PAGE.read_text(encoding="utf-8")
PAGE.write_text(re.sub(r"(?m)(^\|.*\n)+", lambda found: markdown_table() + "\n", page, count=1), encoding="utf-8")
