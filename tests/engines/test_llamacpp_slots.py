"""Slots: one request each, in the order of asking."""

import asyncio

import pytest

from gd2fs.engines.llamacpp.slots import WAITING_PER_SLOT_MAX, SlotPool
from gd2fs.errors import Unavailable


async def started(*works):
    """Tasks of ``works``, each as far as it gets by itself."""
    tasks = [asyncio.create_task(work) for work in works]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


def test_slots_differ_until_they_are_given_back():
    async def take_all():
        pool = SlotPool(3)
        return {await pool.take() for _ in range(3)}

    assert asyncio.run(take_all()) == {0, 1, 2}


def test_who_waits_longest_is_first():
    async def wait_and_give():
        pool = SlotPool(1)
        slot = await pool.take()
        first, second = await started(pool.take(), pool.take())
        pool.give(slot)
        await first
        return second.done(), second.cancel()

    assert asyncio.run(wait_and_give()) == (False, True)


def test_a_slot_is_not_lost_with_the_one_who_gave_up():
    async def give_up():
        pool = SlotPool(1)
        slot = await pool.take()
        (impatient,) = await started(pool.take())
        pool.give(slot)
        impatient.cancel()
        await asyncio.wait({impatient})
        return pool.waiting, await asyncio.wait_for(pool.take(), 5)

    assert asyncio.run(give_up()) == (0, 0)


def test_waiting_has_an_end():
    async def wait():
        pool = SlotPool(1, wait_s=0.01)
        await pool.take()
        await pool.take()

    with pytest.raises(Unavailable):
        asyncio.run(wait())


def test_the_queue_has_an_end():
    async def crowd():
        pool = SlotPool(1)
        await pool.take()
        waiting = await started(*(pool.take() for _ in range(WAITING_PER_SLOT_MAX)))
        try:
            await pool.take()
        finally:
            for task in waiting:
                task.cancel()

    with pytest.raises(Unavailable):
        asyncio.run(crowd())
