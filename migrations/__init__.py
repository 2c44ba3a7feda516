"""The database's history, one Alembic revision a file. The tables as they are now: pipeline/store/schema.py."""
