"""Functions: where each one starts in a source file and how many lines it has.

Python is read by ``ast``. C++ is read by counting braces in text whose comments, literals
and preprocessor lines were blanked out, which is enough for code that clang-format laid out.
A docstring is text, so its lines do not count, as a comment before a C++ function does not.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

CONTAINER = re.compile(r"\b(namespace|class|struct|enum|union|extern)\b")
BLANKED = re.compile(
    r"""
      //[^\n]*
    | /\*.*?\*/
    | R"(?P<mark>[^(\s]{0,16})\(.*?\)(?P=mark)"
    | "(?:\\.|[^"\\\n])*"
    | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'
    | ^[ \t]*\#(?:\\\n|[^\n])*
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Function:
    """One function with a body: its name, its first line (1-based), how many lines it has."""

    name: str
    line: int
    lines: int


def functions_in(path: Path) -> list[Function]:
    """Every function of a Python or C++ file, in the order of the text."""
    text = path.read_text(encoding="utf-8")
    return functions_in_python(text) if path.suffix == ".py" else functions_in_cpp(text)


def functions_in_python(text: str) -> list[Function]:
    """Functions and methods, nested ones too."""
    nodes = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return sorted((_python_function(node) for node in nodes), key=lambda function: function.line)


def functions_in_cpp(text: str) -> list[Function]:
    """Function bodies outside any other; a lambda or a local class belongs to its function."""
    scanner = _CppScanner(_blank(text))
    return scanner.scan()


def _python_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    assert node.end_lineno is not None
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        first = node.body[0]
        assert first.end_lineno is not None
        lines -= first.end_lineno - first.lineno + 1
    return Function(node.name, node.lineno, lines)


def _blank(text: str) -> str:
    def keep_newlines(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    return BLANKED.sub(keep_newlines, text)


class _CppScanner:
    """Walks blanked C++ once; `head` is the text since the last statement ended."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.head_start = 0
        self.found: list[Function] = []

    def scan(self) -> list[Function]:
        parens = 0
        while self.at < len(self.text):
            char = self.text[self.at]
            parens += (char == "(") - (char == ")")
            if char == "{" and parens == 0:
                self._open()
            elif char in ";}" and parens == 0:
                self.head_start = self.at + 1
            self.at += 1
        return self.found

    def _open(self) -> None:
        head = self.text[self.head_start : self.at]
        signature = re.sub(r"\btemplate\s*<[^{}]*?>\s*(?=\w)", "", head)
        if _is_member_initialiser(head):
            self.at = self._closing()
        elif "(" in signature and not re.match(r"\s*(extern|namespace)\b", signature):
            self._take_function(head)
        elif CONTAINER.search(signature):
            self.head_start = self.at + 1
        else:
            self.at = self._closing()  # a braced initialiser of a variable

    def _take_function(self, head: str) -> None:
        start = self.head_start + len(head) - len(head.lstrip())
        name = re.search(r"([~\w:]+|operator\W{1,3})\s*\(", head)
        end = self._closing()
        first = self.text.count("\n", 0, start) + 1
        last = self.text.count("\n", 0, end) + 1
        self.found.append(Function(name.group(1) if name else "lambda", first, last - first + 1))
        self.at = end
        self.head_start = end + 1

    def _closing(self) -> int:
        depth = 0
        for at in range(self.at, len(self.text)):
            depth += (self.text[at] == "{") - (self.text[at] == "}")
            if depth == 0:
                return at
        return len(self.text) - 1


def _is_member_initialiser(head: str) -> bool:
    """`Name::Name(...) : member_{`: the brace initialises a member, the body is still to come."""
    has_list = re.search(r"\)\s*(noexcept\s*)?:(?!:)", head)
    return bool(has_list) and bool(re.search(r"[,:]\s*[\w:]+(<[^{}()]*>)?\s*$", head))
