"""Dead letters: in order, as they came, and never too large for their topic."""

from stream_tgat.agents.dead_letters import LARGEST_BYTES, LARGEST_HEADERS_BYTES, dead_letters
from stream_tgat.commands.topics import LARGE_RECORD_BYTES
from stream_tgat.message_passing.refused import Refused
from stream_tgat.wire import Headers, read_letter
from tests.unit.agents.fakes import Message


def refused(offset: int, value: bytes, partition: int = 0, headers: Headers | None = None) -> Refused:
    return Refused("interactions", partition, offset, b"key", value, headers, "because")


def test_letter_keeps_all_headers_and_when_the_record_was_written() -> None:
    own = [("content-type", b"text/json"), ("trace", b"1"), ("trace", b"2")]
    message = Message("interactions", 3, 7, b"value", b"key", own, timestamp=1_700_000_000.123)
    ((letter,),) = dead_letters([Refused.of(message, "because")], 1).values()
    read = read_letter(letter.key, letter.value, letter.headers)
    assert (read.key, read.value, list(read.headers)) == (b"key", b"value", own)
    assert (read.place, read.written, read.reason) == ("interactions/3/7", 1_700_000_000.123, "because")


def test_headers_that_are_huge_are_left_out_and_said_to_be() -> None:
    huge = [("x", b"x" * LARGEST_HEADERS_BYTES)]
    ((letter,),) = dead_letters([refused(0, b"value", headers=huge)], 1).values()
    read = read_letter(letter.key, letter.value, letter.headers)
    assert (read.value, read.headers, read.size) == (b"value", (), LARGEST_HEADERS_BYTES + 1)


def test_largest_letter_fits_its_topic() -> None:
    most = [("x", b"x" * (LARGEST_HEADERS_BYTES - 1))]
    record = Refused("interactions", 0, 0, b"k" * LARGEST_BYTES, b"v" * LARGEST_BYTES, most, "because" * 100)
    ((letter,),) = dead_letters([record], 1).values()
    size = sum(map(len, (letter.key or b"", letter.value or b"", *(value for _, value in letter.headers))))
    assert size + 10_000 < LARGE_RECORD_BYTES


def test_letters_of_a_source_keep_its_order() -> None:
    (letters,) = dead_letters([refused(7, b"b"), refused(3, b"a")], 1).values()
    assert [letter.value for letter in letters] == [b"a", b"b"]


def test_huge_record_is_cut_and_says_so() -> None:
    huge = b"x" * (LARGEST_BYTES + 1)
    (letters,) = dead_letters([refused(0, huge), refused(1, b"small")], 1).values()
    assert [letter.value for letter in letters] == [huge[:LARGEST_BYTES], b"small"]
    assert dict(letters[0].headers)["truncated"] == b"%d" % len(huge)
    assert "truncated" not in dict(letters[1].headers)
