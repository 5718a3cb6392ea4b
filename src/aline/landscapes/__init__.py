"""The plug-in for landscapes: a Gaussian process whose kernel is learned from recorded tables."""
