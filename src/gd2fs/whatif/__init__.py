"""What if: what a cluster would find with more memory, more disk or more nodes.

``told`` is what a node says of its curves; ``curves`` asks all nodes; ``question`` is what is to be
different; ``answer`` works it out.
"""

from gd2fs.whatif.answer import Answer, Row, answer_of
from gd2fs.whatif.curves import NodeCurves, curves_of
from gd2fs.whatif.question import Question

__all__ = ["Answer", "NodeCurves", "Question", "Row", "answer_of", "curves_of"]
