"""Storm: requests that do not stop while something is done to the store behind them."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from engines.servers import wait_until
from instances import PATIENCE_S, Answer, Instance

THREADS_OF_EACH = 2  # of an instance


@dataclass
class Storm:
    """Threads that ask servers known prompts in random order. A context manager.

    Args:
        instances: Who is asked.
        known: Prompts, and what a server that kept its cache answers to them.
    """

    instances: Sequence[Instance]
    known: Sequence[tuple[list[int], list[int]]]
    answers: list[Answer] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __enter__(self) -> Storm:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask_on, args=(instance, number))
            for instance in self.instances
            for number in range(THREADS_OF_EACH)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_more(self, count: int) -> None:
        """Wait until so many more were answered."""
        wanted = len(self.answers) + count
        wait_until(
            lambda: len(self.answers) >= wanted or bool(self.faults), 2 * PATIENCE_S, "answers"
        )

    def slowest_s(self) -> float:
        """How long a request took at most."""
        return max(each.seconds for each in self.answers)

    def _ask_on(self, instance: Instance, number: int) -> None:
        draw = random.Random(f"{instance.server.name} {number}")
        while not self._stop.is_set():
            prompt, wanted = draw.choice(self.known)
            try:
                answer = instance.ask(prompt)
            except Exception as error:  # the thread's top: told by the test
                self.faults.append(f"{instance.server.name}: {error!r}")
                return
            if answer.tokens != wanted:
                self.faults.append(f"{instance.server.name}: {answer.tokens}, not {wanted}")
            self.answers.append(answer)
