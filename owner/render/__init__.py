"""Texts that commands print, made from the documents that `--json` prints."""
