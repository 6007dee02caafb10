"""The style guide checks itself: limits on every source file of the repository."""

from __future__ import annotations

import ast
import re
import statistics
import textwrap
import warnings
from collections import Counter
from pathlib import Path

import pytest
from tidy.functions import functions_in, functions_in_cpp, functions_in_python

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    "core",
    "include",
    "bindings",
    "src",
    "tests",
    "fuzz",
    "benchmarks",
    "deploy",
    "integrations",
    "docs",
    ".ci",
)
SUFFIXES = (".py", ".pyi", ".cc", ".h", ".c")
FUNCTION_LINES_MAX = 70
FUNCTION_LINES_MEDIAN_MAX = 10
FILE_LINES_MAX = 800
FILE_LINES_WARN = 500
COLUMNS_MAX = 100
VAGUE_NAMES = {"utils", "util", "common", "helpers", "helper", "misc", "manager"}
OF_BYTES = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "eval", "exec"}
UNDONE = re.compile(r"\b(TO" + r"DO|FIX" + r"ME)\b")

SOURCES = sorted(
    path.relative_to(ROOT)
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if path.suffix in SUFFIXES and "__pycache__" not in path.parts
)
TESTS = [path for path in SOURCES if path.parts[0] == "tests" and path.suffix == ".py"]


def lines_of(path: Path) -> list[str]:
    return (ROOT / path).read_text(encoding="utf-8").splitlines()


def test_there_are_sources_in_both_languages():
    assert {".py", ".cc", ".h"} <= {path.suffix for path in SOURCES}


@pytest.mark.parametrize("path", [path for path in SOURCES if path.suffix != ".pyi"], ids=str)
def test_functions_fit_on_a_screen(path):
    long = [f for f in functions_in(ROOT / path) if f.lines > FUNCTION_LINES_MAX]

    assert not long, [f"{path}:{f.line} {f.name} has {f.lines} lines" for f in long]


def test_the_median_function_is_short():
    lengths = [
        f.lines for path in SOURCES if path.suffix != ".pyi" for f in functions_in(ROOT / path)
    ]

    assert statistics.median(lengths) <= FUNCTION_LINES_MEDIAN_MAX


def test_no_two_test_modules_have_one_name():
    """Those of a package have its name before theirs; of the others Python loads only one."""
    alone = [path for path in TESTS if not (ROOT / path.parent / "__init__.py").exists()]
    counts = Counter(path.name for path in alone if path.name.startswith("test_"))

    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_files_are_small(path):
    count = len(lines_of(path))
    if count > FILE_LINES_WARN:
        warnings.warn(f"{path} has {count} lines, over {FILE_LINES_WARN}: split it", stacklevel=1)

    assert count <= FILE_LINES_MAX


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_lines_are_at_most_100_columns(path):
    long = [
        f"{path}:{at} has {len(line)}"
        for at, line in enumerate(lines_of(path), 1)
        if len(line) > COLUMNS_MAX
    ]

    assert not long, long


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_names_say_what_is_inside(path):
    assert not VAGUE_NAMES & {part.split(".")[0] for part in path.parts}


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_nothing_is_left_undone(path):
    undone = [
        f"{path}:{at} {line.strip()}"
        for at, line in enumerate(lines_of(path), 1)
        if UNDONE.search(line)
    ]

    assert not undone, undone


def made_from_bytes(source: str) -> list[str]:
    """What of a Python source makes objects, or code, of bytes that somebody has sent."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names = [node.func.id] if node.func.id in ("eval", "exec") else []
        found += [name for name in names if name.partition(".")[0] in OF_BYTES]
    return found


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if path.suffix == ".py" and path.parts[0] == "src"], ids=str
)
def test_no_object_is_made_from_bytes(path):
    assert made_from_bytes((ROOT / path).read_text(encoding="utf-8")) == []


def test_what_makes_objects_from_bytes_is_seen():
    for source in ("import pickle", "from dill import loads", "import os, marshal", "eval('x')"):
        assert made_from_bytes(source), source


@pytest.mark.parametrize("path", TESTS, ids=str)
def test_skipped_tests_say_why(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    silent = [node.lineno for node in ast.walk(tree) if is_silent_skip(node)]

    assert not silent, [f"{path}:{line} skips without a reason" for line in silent]


def is_silent_skip(node: ast.AST) -> bool:
    if (
        isinstance(node, ast.Attribute)
        and node.attr == "skip"
        and ast.unparse(node) == "pytest.mark.skip"
    ):
        return not hasattr(node, "is_called")
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    if name in ("pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail"):
        node.func.is_called = True  # type: ignore[attr-defined]
        return not any(keyword.arg == "reason" for keyword in node.keywords)
    return name in ("pytest.skip", "pytest.xfail") and not (node.args or node.keywords)


# ---- the readers themselves ----------------------------------------------------------------------


def test_python_functions_are_measured_without_their_docstring():
    text = textwrap.dedent('''
        def short():
            """One.

            Two.
            """
            return 1

        class Box:
            async def open(self):
                def inner():
                    return 2
                return inner
    ''')

    assert [(f.name, f.line, f.lines) for f in functions_in_python(text)] == [
        ("short", 2, 2),
        ("open", 10, 4),
        ("inner", 11, 2),
    ]


CPP = """\
#include <x>
#define TWICE(a) { \\
  a; a; }
namespace gd2fs {
namespace {
constexpr int table[] = {1, 2};
// void not_this() { }
int first(int a, Options b = {}) {
  if (a) { return '{'; }
  auto inner = [&] { return 1; };
  return "}{"[0];
}
}  // namespace
enum class Kind : std::uint8_t { one = 1'000, two };
struct Box {
  std::array<int, 2> id{};
  int size() const noexcept { return 2; }
  Box& operator=(Box&& other) noexcept {
    return *this;
  }
};
Box::Box(int a)
    : id{1, 2},
      size_(a) {
  start();
}
template <class T>
class Holder {
  Result(T value) : held_(std::move(value)) {}
};
TEST_CASE("a property") {
  CHECK(R"(})" != "");
}
}  // namespace gd2fs
"""


def test_cpp_functions_are_found_between_everything_else_that_has_braces():
    found = [(f.name, f.line, f.lines) for f in functions_in_cpp(CPP)]

    assert found == [
        ("first", 8, 5),
        ("size", 17, 1),
        ("operator=", 18, 3),
        ("Box::Box", 22, 5),
        ("Result", 29, 1),
        ("TEST_CASE", 31, 3),
    ]


def test_a_skip_without_a_reason_is_seen():
    silent = ast.parse("@pytest.mark.skip\ndef test_a(): pytest.skip()")
    spoken = ast.parse("@pytest.mark.skip(reason='slow')\ndef test_a(): pytest.skip('no disk')")

    assert sum(map(is_silent_skip, ast.walk(silent))) == 2
    assert sum(map(is_silent_skip, ast.walk(spoken))) == 0
