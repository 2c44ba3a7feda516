"""Which database a test's fleet has, where not both in turn."""

import pytest

on_sqlite = pytest.mark.parametrize("fleet", ["sqlite"], indirect=True)
on_postgresql = pytest.mark.parametrize("fleet", ["postgresql"], indirect=True)
