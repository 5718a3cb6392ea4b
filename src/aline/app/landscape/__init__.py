"""`aline map-landscape`: which configurations to score, and what the scores say of all others."""
