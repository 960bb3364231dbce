"""The site's end of the conversation with a curator."""
