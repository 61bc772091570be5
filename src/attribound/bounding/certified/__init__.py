"""Proved bounds: certificates for networks of affine layers and smooth activations."""

from attribound.bounding.certified.certify import CERTIFIED, INTERVAL, TAYLOR, Certified, certify

__all__ = ["CERTIFIED", "INTERVAL", "TAYLOR", "Certified", "certify"]
