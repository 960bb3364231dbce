"""Values in one written form, as JSON, YAML, text or numbers, and their faults."""
