"""The live experiment over HTTP: an API under /api/v1, a page, and what guards them.

A request travels guard -> api or pages -> lab -> aline.experiment.
"""
