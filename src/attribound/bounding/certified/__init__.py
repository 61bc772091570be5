"""Proved bounds: certificates for networks of affine layers and smooth activations."""

from attribound.bounding.certified.certify import INTERVAL, TAYLOR, Certificate, Certified, certify

__all__ = ["INTERVAL", "TAYLOR", "Certificate", "Certified", "certify"]
