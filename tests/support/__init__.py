"""Shared helpers of tests."""
