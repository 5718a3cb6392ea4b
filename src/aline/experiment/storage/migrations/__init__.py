"""How a database of an earlier aline becomes one of today's, one step a file, run by Alembic.

A step, once released, is never edited. `aline.experiment.storage.upgrade` runs them.
"""
