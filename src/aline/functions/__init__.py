"""The plug-in for unknown functions: everything that knows what a Gaussian process is."""
