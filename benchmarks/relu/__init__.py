"""``make bench-network``: networks with kinks, plan, measurement, scores, report."""
