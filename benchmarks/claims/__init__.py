"""What ``make bench-bounds`` is made of: plan, measurement, storage, scores, goals, report."""
