"""The page's colours: what is read or looked at stands out enough (WCAG 2.2 AA), light and dark."""

from __future__ import annotations

import re

import pytest

from gd2fs.dashboard.page import PARTS

STYLE = (PARTS / "page.css").read_text(encoding="utf-8")
TEXT_MIN = 4.5
MARK_MIN = 3.0  # of what is no text: lines of charts, bars, borders of controls

TEXTS = [
    (text, ground)
    for text in ("text", "muted", "accent", "ok", "warn", "bad")
    for ground in ("panel", "raised", "ground")
] + [("on-accent", "accent"), ("on-bad", "bad")]
MARKS = [
    (line, "panel") for line in ("read", "write", "third", "edge", "accent", "fill", "bad", "warn")
] + [("edge", "ground"), ("fill", "track")]


def colours_of(scheme: str) -> dict[str, str]:
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light))
    if scheme == "dark":
        found |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", dark))
    return found


def luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_what_it_is_known_to_be():
    assert round(contrast("#000000", "#ffffff"), 2) == 21
    assert round(contrast("#767676", "#ffffff"), 2) == 4.54


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), TEXTS)
def test_text_can_be_read(scheme, text, ground):
    colours = colours_of(scheme)

    assert contrast(colours[text], colours[ground]) >= TEXT_MIN


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("mark", "ground"), MARKS)
def test_marks_can_be_seen(scheme, mark, ground):
    colours = colours_of(scheme)

    assert contrast(colours[mark], colours[ground]) >= MARK_MIN


def test_both_schemes_have_the_same_colours():
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)

    assert re.findall(r"--[\w-]+", light) == re.findall(r"--[\w-]+", dark)


def test_no_colour_is_named_anywhere_else():
    rules = re.sub(r":root \{.*?\}", "", STYLE, flags=re.DOTALL)

    assert not re.findall(r"#[0-9a-f]{3,8}\b", rules)
