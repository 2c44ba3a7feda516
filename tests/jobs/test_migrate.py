from pipeline.store.schema import SCHEMA_VERSION


def test_an_empty_database_is_made_and_then_is_up_to_date(run, home):
    result = run("migrate")
    assert (result.exit_code, result.stdout) == (0, f"The database went from empty to version {SCHEMA_VERSION}.\n")
    assert (home / "pipeline.db").is_file()
    assert run("migrate").stdout == f"The database is up to date: version {SCHEMA_VERSION}.\n"
