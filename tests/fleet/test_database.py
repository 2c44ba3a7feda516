"""A database that restarts, breaks down, loses its connections or is locked: whoever was in the middle tries again."""

import sqlite3
import time

import psycopg

from tests.fleet.marks import on_postgresql, on_sqlite


@on_postgresql
def test_the_database_restarts(fleet, job, calm):
    fleet.postgres.restart()
    fleet.until_done(job)
    fleet.require_whole(job, calm)


@on_postgresql
def test_the_database_is_killed_and_is_away_for_longer_than_a_lease(fleet, job, calm):
    fleet.postgres.kill()
    time.sleep(4)
    fleet.postgres.start()
    fleet.until_done(job)
    fleet.require_whole(job, calm)


@on_postgresql
def test_the_database_stands_still_for_longer_than_a_lease_and_no_worker_is_taken_for_dead(fleet, job, calm):
    with fleet.postgres.frozen():
        time.sleep(4)
    fleet.until_done(job)
    fleet.require_whole(job, calm)
    assert fleet.seen.crashes(job) == 0


@on_postgresql
def test_the_database_ends_all_connections(fleet, job, calm):
    with psycopg.connect(fleet.postgres.url.replace("+psycopg", ""), autocommit=True) as connection:
        for _ in range(3):
            ended = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            assert ended.rowcount > 0
            time.sleep(0.3)
    fleet.until_done(job)
    fleet.require_whole(job, calm)


@on_sqlite
def test_the_database_is_locked_for_longer_than_a_lease(fleet, job, calm):
    other = sqlite3.connect(fleet.database_url.removeprefix("sqlite:///"), timeout=30)
    other.execute("BEGIN IMMEDIATE")
    time.sleep(4)
    other.close()
    fleet.until_done(job)
    fleet.require_whole(job, calm)
