"""Certificates of ReLU networks themselves: which neurons can switch, and what that moves."""
