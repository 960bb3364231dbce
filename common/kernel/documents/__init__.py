"""What is written down: values in one form, as JSON, YAML, text or numbers, and their faults."""
