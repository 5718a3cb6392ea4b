"""The edge: command line, plots, report."""
