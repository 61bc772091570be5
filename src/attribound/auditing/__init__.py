"""Audits: bounds and attacks for every sample of a data set, in rows that can be kept."""
