"""Rows out of somebody's database: the same journey, and no password is kept anywhere."""

import json
import sqlite3

import psycopg
import pytest

SELECT = "SELECT id, text FROM reviews ORDER BY id"


@pytest.fixture
def reviews(tmp_path):
    """Changes the table, which begins with three rows."""
    path = tmp_path / "reviews.db"

    def change(*statements):
        with sqlite3.connect(path) as connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()
        return path

    change("CREATE TABLE reviews (id INTEGER, text TEXT)", "INSERT INTO reviews VALUES (7,'a'), (8,'b'), (9,'c')")
    return change


def texts(home):
    return [json.loads(line)["text"] for line in home.call("results", "night").stdout.splitlines()]


def test_a_select_is_a_table(home, submit, reviews, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reviews()
    (tmp_path / "q.sql").write_text(f"{SELECT};\n")
    done = submit("--sql", "@q.sql", "--from", "sqlite:///reviews.db", "--key", "id", "--limit", "2")
    assert done.exit_code == 0, done.stderr
    assert [result.key for result in home.results("night")] == ["7", "8"]
    assert texts(home) == ["a", "b"]
    again = submit("--sql", f"{SELECT};", "--from", f"sqlite:///{tmp_path}/reviews.db", "--key", "id", "--limit", "2")
    assert "night is the same job as before." in again.stderr


def test_in_a_job_file(home, reviews, tmp_path, tiny_model, monkeypatch):
    monkeypatch.chdir("/")
    reviews()
    (tmp_path / "job.yaml").write_text(
        f"sql: {SELECT}\nfrom: sqlite:///reviews.db\nname: night\n"
        f"model: {tiny_model}\nprompt: '{{text}}'\nmax_tokens: 2\n"
    )
    assert home.call("submit", "--job", tmp_path / "job.yaml").exit_code == 0
    assert texts(home) == ["a", "b", "c"]


def test_a_dry_run_reads_it_too(submit, reviews):
    shown = submit("--sql", SELECT, "--from", f"sqlite:///{reviews()}", "--dry-run")
    assert shown.exit_code == 0
    assert "Say: a" in shown.stdout


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (["--sql", "SELECT 1"], 2, "--sql needs the URL of one database; give --from"),
        (["--sql", "SELECT 1", "rows.csv"], 2, "--sql needs the URL of one database; give --from, such as"),
        (["--from", "sqlite:///a.db"], 2, "--from needs --sql, the SELECT that gives the rows."),
        (["a.csv", "--sql", "SELECT 1", "--from", "sqlite:///a.db"], 2, "INPUT and --from are two sources of rows."),
        (["--sql", "SELECT 1", "--from", "sqlite:////no/a.db"], 1, "There is no database /no/a.db."),
        (["--sql", "@no.sql", "--from", "sqlite:////no/a.db"], 2, "The SQL file "),
    ],
)
def test_what_makes_no_sense(submit, told, flags, status, message):
    assert told(submit(*flags), status).startswith(message)


@pytest.fixture
def half_cut(home, submit, reviews, full_disk):
    """A job whose first two rows are in shards."""
    home.variables["PIPELINE_SHARD_ROWS"] = "1"
    with full_disk(behind=4):
        assert submit("--sql", SELECT, "--from", f"sqlite:///{reviews()}").exit_code == 75
    assert len(list(home.path.glob("jobs/*/shards/*.parquet"))) == 2


def test_a_cut_goes_on_behind_the_rows_that_it_has(home, half_cut, reviews):
    reviews("UPDATE reviews SET text = 'new' WHERE id = 9")
    done = home.call("resume", "night")
    assert done.exit_code == 0, done.stderr
    assert texts(home) == ["a", "b", "new"]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE reviews SET text = 'x' WHERE id = 8",
        "DELETE FROM reviews WHERE id = 7",
        "INSERT INTO reviews VALUES (1, 'x')",
    ],
)
def test_a_cut_is_not_gone_on_with_where_its_rows_are_others_now(home, half_cut, reviews, told, change):
    reviews(change)
    message = told(home.call("resume", "night"), 4)
    assert message.startswith("The input is not what it was when its first 2 rows were cut: row ")
    assert "gives the same rows in the same order only with ORDER BY" in message


def test_a_password_is_kept_nowhere(home, submit, postgresql_url, full_disk, told, monkeypatch):
    with psycopg.connect(postgresql_url.replace("+psycopg", "")) as connection:
        connection.execute("CREATE TABLE reviews AS SELECT 1 AS id, 'a' AS text UNION SELECT 2, 'b'")
    secret = postgresql_url.replace("pipeline@", "pipeline:hunter2@")
    home.variables["PIPELINE_SHARD_ROWS"] = "1"
    with full_disk(behind=2):
        stopped = submit("--sql", SELECT, "--from", secret)
    assert stopped.exit_code == 75
    home.variables["PIPELINE_SOURCE_URL"] = secret
    done = home.call("resume", "night")
    assert done.exit_code == 0, done.stderr
    again = submit("--sql", SELECT, "--from", secret)
    other = submit("--sql", "SELECT 1 AS text", "--from", secret)
    assert (again.exit_code, other.exit_code) == (0, 4)
    shown = [result.output for result in (stopped, done, again, other, home.call("status", "night", "--json"))]
    assert "hunter2" not in "".join(shown)
    kept = [path for path in home.path.rglob("*") if path.is_file()]
    assert len(kept) > 3
    assert [path for path in kept if b"hunter2" in path.read_bytes()] == []
