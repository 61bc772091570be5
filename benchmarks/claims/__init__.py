"""``make bench-bounds``: plan, measurement, storage, passes of attacks, scores, goals, report."""
