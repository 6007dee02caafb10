"""Key trace: what is asked of running nodes, recorded as a trace that `gd2fs sim` reads.

``entries`` reads what a node has noted; ``desk`` answers for it; ``requests`` makes requests of
batches; ``recording`` asks all nodes and puts what they say in one order.
"""

from gd2fs.key_trace.recording import (
    Recording,
    Summary,
    fault_line,
    gaps_of,
    header_of,
    lines_of,
    nothing_recorded,
)

__all__ = [
    "Recording",
    "Summary",
    "fault_line",
    "gaps_of",
    "header_of",
    "lines_of",
    "nothing_recorded",
]
