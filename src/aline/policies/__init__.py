"""From scores and proposals to the next design."""
