"""The paper's tables, figures and claims, made from runs."""
