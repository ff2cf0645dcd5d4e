"""Text files in pieces: all bytes once, cut at good places, whatever the file holds."""

import pytest

from tfdistill import errors
from tfdistill.data import textspans

PROSE = "Good film.\nBad story.\n\n" * 40


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def pieces(path, span_bytes, **options):
    return [textspans.read_span(s, **options) for s in textspans.plan_spans(path, span_bytes)]


@pytest.mark.parametrize("span_bytes", [1, 7, 64, 100, 10_000])
@pytest.mark.parametrize(
    "text",
    [PROSE, "x" * 999, "我们去。好吗？" * 50, "é ü " * 300, "a\n" * 500, "\n\n \n" * 90, "", "à"],
)
def test_the_pieces_are_the_whole_file(tmp_path, text, span_bytes):
    path = write(tmp_path / "a.txt", text)
    assert "".join(pieces(path, span_bytes)) == text


def test_a_cut_is_at_a_blank_line_else_a_line_end_else_a_space(tmp_path):
    ends = {
        "one two\nthree\n \t\nfour" + "x" * 500: "one two\nthree\n \t\n",
        "one two\nthree four" + "x" * 500: "one two\n",
        "one two" + "x" * 500: "one ",
        "我们" * 200: "我",
    }
    for text, first in ends.items():
        path = write(tmp_path / "a.txt", text)
        # Looking begins at byte 2; the window is as long as a piece, so ask for long pieces.
        assert pieces(path, 300)[0] != text
        with open(path, "rb") as file:
            end = textspans._cut(file, 2, 200, path.stat().st_size)
        assert text.encode()[:end].decode() == first


def test_byte_order_mark_and_windows_line_ends_are_dropped(tmp_path):
    path = write(tmp_path / "a.txt", "\ufeffGood.\r\n\r\nBad.\r\n")
    assert pieces(path, 1000) == ["Good.\n\nBad.\n"]
    assert list(textspans.documents(pieces(path, 1000)[0])) == [["Good."], ["Bad."]]


def test_a_file_that_shrank_or_went_is_an_error(tmp_path):
    path = write(tmp_path / "a.txt", PROSE)
    spans = textspans.plan_spans(path, 100)
    write(path, PROSE[:90])
    with pytest.raises(errors.DataError, match=r"the file changed|The file changed"):
        textspans.read_span(spans[1])
    for size, paths in ((0, path), (100, [tmp_path])):
        with pytest.raises(errors.DataError):
            textspans.plan_spans(paths, size)
    path.unlink()
    with pytest.raises(errors.DataError):
        textspans.read_span(spans[0])
