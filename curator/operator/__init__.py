"""The operator's end of the conversation with a curator."""
