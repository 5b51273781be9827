"""Dead letters: in order, as they came, and never too large for their topic."""

from stream_tgat.agents.dead_letters import LARGEST_BYTES, Refused, dead_letters


def refused(offset: int, value: bytes, partition: int = 0) -> Refused:
    return Refused("interactions", partition, offset, b"key", value, None, "because")


def test_letters_of_a_source_keep_its_order() -> None:
    (letters,) = dead_letters([refused(7, b"b"), refused(3, b"a")], 1).values()
    assert [letter.value for letter in letters] == [b"a", b"b"]


def test_huge_record_is_cut_and_says_so() -> None:
    huge = b"x" * (LARGEST_BYTES + 1)
    (letters,) = dead_letters([refused(0, huge), refused(1, b"small")], 1).values()
    assert [letter.value for letter in letters] == [huge[:LARGEST_BYTES], b"small"]
    assert dict(letters[0].headers)["truncated"] == b"%d" % len(huge)
    assert "truncated" not in dict(letters[1].headers)
