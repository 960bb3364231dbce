"""Monitoring of a curator: log, metrics, readiness."""
