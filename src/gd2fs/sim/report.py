"""Report: the table for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from gd2fs.sizes import format_bytes

RATIO = "shared/private"


@dataclass(frozen=True, slots=True)
class Row:
    """One line: where it stands in the figures, and how it is written."""

    label: str
    path: tuple[str, ...]
    form: Callable[[float], str]
    is_ratio: bool = True


def _seconds(value: float) -> str:
    return f"{value:,.2f} s" if value >= 1 else f"{1000 * value:.3g} ms"


def _share(value: float) -> str:
    return f"{value:.1%}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _bytes(value: float) -> str:
    return format_bytes(round(value))


def _money(value: float) -> str:
    return f"{value:,.3f}"


AT_GOAL = ("requests_per_s_at_goal",)
ROWS = (
    Row("blocks found", ("block_hit_rate",), _share),
    Row("  on the device", ("hit_rate_by_tier", "device"), _share, False),
    Row("  in host memory", ("hit_rate_by_tier", "host"), _share, False),
    Row("  in GD2FS, memory", ("hit_rate_by_tier", "memory"), _share, False),
    Row("  in GD2FS, NVMe", ("hit_rate_by_tier", "disk"), _share, False),
    Row("there, but slower to load", ("declined_share",), _share, False),
    Row("prompt tokens found", ("token_hit_rate",), _share),
    Row("prompt tokens computed", ("prefill_tokens",), _count),
    Row("requests per second", ("requests_per_s",), "{:,.2f}".format),
    Row("requests per second at the goal", AT_GOAL, "{:,.2f}".format),
    Row("first token after, mean", ("ttft_s", "mean"), _seconds),
    Row("first token after, P50", ("ttft_s", "p50"), _seconds),
    Row("first token after, P95", ("ttft_s", "p95"), _seconds),
    Row("first token after, P99", ("ttft_s", "p99"), _seconds),
    Row("first token after, max", ("ttft_s", "max"), _seconds),
    Row("  later turns, mean", ("ttft_later_turns_s", "mean"), _seconds),
    Row("  later turns, P95", ("ttft_later_turns_s", "p95"), _seconds),
    Row("next token after, mean", ("tpot_s", "mean"), _seconds),
    Row("next token after, P50", ("tpot_s", "p50"), _seconds),
    Row("next token after, P95", ("tpot_s", "p95"), _seconds),
    Row("next token after, P99", ("tpot_s", "p99"), _seconds),
    Row("next token after, max", ("tpot_s", "max"), _seconds),
    Row("GPU seconds for prompts", ("prefill_gpu_s",), _count),
    Row("  saved by what was found", ("prefill_gpu_s_saved",), _count, False),
    Row("engines busy", ("utilization", "mean"), _share),
    Row("evicted from host memory", ("evictions", "host"), _count, False),
    Row("evicted from GD2FS memory", ("evictions", "memory"), _count, False),
    Row("evicted from GD2FS NVMe", ("evictions", "disk"), _count, False),
    Row("into engines' NICs", ("bytes_moved", "engine_nics", "in"), _bytes, False),
    Row("out of engines' NICs", ("bytes_moved", "engine_nics", "out"), _bytes, False),
    Row("busiest node's NIC, out", ("bytes_moved", "node_nics", "out_busiest"), _bytes, False),
    Row("written to NVMe", ("bytes_moved", "disks", "written"), _bytes, False),
    Row("instances, mean over time", ("elasticity", "mean_instances"), "{:,.1f}".format, False),
    Row("hours of instances", ("elasticity", "instance_hours"), "{:,.1f}".format, False),
    Row("  free for work that can wait", ("elasticity", "spare_hours"), "{:,.1f}".format, False),
    Row("  tokens of it", ("elasticity", "offline_tokens"), _count, False),
    Row("cost per million tokens", ("cost", "per_million_tokens"), _money),
    Row("  at the goal", ("cost", "per_million_tokens_at_goal"), _money),
)


def value_of(figures: Mapping[str, Any], path: Sequence[str]) -> float | None:
    """What stands at a path; None when it was not worked out."""
    value: Any = figures
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def rows_of(runs: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Label, a cell of each run, and the second one's in parts of the first's."""
    rows = []
    for row in ROWS:
        values = [value_of(run, row.path) for run in runs]
        is_told = row.path == AT_GOAL and any(value is not None for value in values)
        if not any(values) and row.path != ("block_hit_rate",) and not is_told:
            continue
        cells = [_cell(row, run, value) for run, value in zip(runs, values, strict=True)]
        if len(runs) == 2:
            first, second = values
            is_open = row.path == AT_GOAL and any(run.get("goal_is_at_least") for run in runs)
            has_ratio = row.is_ratio and first and second is not None and not is_open
            cells.append(f"{second / first:.2f}" if has_ratio and first and second else "")
        rows.append((row.label, *cells))
    return rows


def _cell(row: Row, run: Mapping[str, Any], value: float | None) -> str:
    if value is None:
        return ""
    if row.path != AT_GOAL:
        return row.form(value)
    if value == 0:
        return "not reached"
    return f"at least {row.form(value)}" if run.get("goal_is_at_least") else row.form(value)


def print_report(title: str, runs: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Write the table."""
    console.print(title, style="bold", soft_wrap=True)
    table = Table()
    table.add_column("", no_wrap=True)
    for heading in headings_of(runs):
        table.add_column(heading, justify="right")
    for cells in rows_of(runs):
        table.add_row(*cells)
    console.print(table)


def headings_of(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of the columns after the first."""
    names = [str(run["topology"]) for run in runs]
    return [*names, RATIO] if len(runs) == 2 else names


def title_of(trace: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """What was played, one line."""
    return (
        f"{trace['requests']:,} requests of {trace['sessions']:,} conversations, "
        f"{run['instances']} instances, balancer {run['balancer']}"
    )
