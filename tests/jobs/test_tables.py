import pytest
from rich.console import Console

from jobs.tables import Column, counted, duration, print_table, rich_table, size


def test_in_a_pipe_cells_are_apart_by_tabs_and_long_ones_cut(capsys):
    print_table([Column("NAME"), Column("ANSWER", "text")], [["a", "x" * 500], ["b", "one\ttwo\nthree \x1b[31m"]])
    assert capsys.readouterr().out == f"NAME\tANSWER\na\t{'x' * 199}…\nb\tone two three [31m\n"


def test_prose_is_whole_in_a_pipe_and_goes_on_in_the_next_line_on_a_terminal(capsys):
    column = Column("NOTE", "prose")
    print_table([column], [["x" * 500]])
    assert capsys.readouterr().out == f"NOTE\n{'x' * 500}\n"
    Console(width=40).print(rich_table([column], [["word " * 60]]))
    assert capsys.readouterr().out.count("word") == 60


@pytest.mark.parametrize(("count", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (12345, "12,345 rows")])
def test_counted(count, text):
    assert counted(count, "row") == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (12.34, "12.3 s"),
        (59.94, "59.9 s"),
        (59.99, "1:00"),
        (65.2, "1:05"),
        (3599.7, "1:00:00"),
        (36004, "10:00:04"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(0, "0 MiB"), (100 << 20, "100 MiB"), (1000 << 20, "1.0 GiB"), (5 << 29, "2.5 GiB")]
)
def test_size(n_bytes, text):
    assert size(n_bytes) == text
