"""This project's broker as it is served: a process with sockets and a log directory."""
