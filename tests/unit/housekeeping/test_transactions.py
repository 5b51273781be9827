"""Transactions that do not end are told once each, and counted while they hang."""

from __future__ import annotations

import pytest
from faust.types import TP

from stream_tgat.housekeeping.transactions import OpenTransactions
from stream_tgat.transport.client import HeldBack

ONE, TWO = TP("interactions", 0), TP("interactions", 1)


class Partitions:
    """held: what open transactions keep from being read"""

    def __init__(self) -> None:
        self.held: dict[TP, HeldBack] = {}

    def held_back(self, tp: TP) -> HeldBack | None:
        return self.held.get(tp)


def test_transaction_hangs_that_is_open_at_two_looks_in_a_row(caplog: pytest.LogCaptureFixture) -> None:
    partitions = Partitions()
    transactions = OpenTransactions(partitions)

    def look(**held: HeldBack) -> int:
        partitions.held = {{"one": ONE, "two": TWO}[name]: each for name, each in held.items()}
        return transactions.look([ONE, TWO])

    assert look(one=HeldBack(5, 2)) == 0
    assert look(one=HeldBack(9, 2), two=HeldBack(0, 1)) == 0, "the one has ended, and another has begun"
    assert not caplog.records
    assert look(one=HeldBack(9, 4), two=HeldBack(0, 1)) == 2
    assert look(one=HeldBack(9, 7)) == 1
    assert look() == 0
    told = [record.getMessage() for record in caplog.records]
    assert [each.split(" transaction")[0] for each in told] == ["interactions/0: a", "interactions/1: a"]
    assert "begun at offset 9 and does not end; the 4 offsets from there on wait" in told[0]
    assert "abort --topic interactions --partition 0 --start-offset 9" in told[0]


def test_transaction_that_hangs_again_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    partitions = Partitions()
    transactions = OpenTransactions(partitions)
    for offset in (1, 1, 8, 8):
        partitions.held = {ONE: HeldBack(offset, 1)}
        transactions.look([ONE])
    assert len(caplog.records) == 2
