"""How much code there is: statements without docstrings, by folder; lines and comments weigh nothing.

python benchmarks/statements.py [FOLDER ...] [--depth 2] [--json]
"""

from __future__ import annotations

import argparse
import ast
import json
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ["flows", "tasks", "longform", "schemas"]


def statements(path: Path) -> int:
    """Statements of a module, docstrings left out."""
    return sum(isinstance(node, ast.stmt) and not _is_text(node) for node in ast.walk(ast.parse(path.read_text())))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", default=PACKAGES)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sums: Counter[str] = Counter()
    for folder in given.folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            number, parts = statements(path), path.relative_to(ROOT).parent.parts
            for depth in range(1, min(len(parts), given.depth) + 1):
                sums["/".join(parts[:depth])] += number
    total = sum(number for folder, number in sums.items() if "/" not in folder)
    if given.json:
        return print(json.dumps({**sums, "total": total}))
    for folder, number in sums.items():
        print(f"{'  ' * folder.count('/')}{folder:<40}{number:>8,}")
    print(f"{'total':<40}{total:>8,}")


if __name__ == "__main__":
    main()
