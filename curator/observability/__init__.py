"""What a curator tells its watchers: log, metrics, readiness."""
