"""What commands print, from the documents that `--json` prints."""
