"""Unknown functions: everything that knows what a Gaussian process is."""
