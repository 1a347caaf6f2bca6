//! belljar over HTTP: one service of runs and sessions, and thin faces on it, one for each kind of client.
