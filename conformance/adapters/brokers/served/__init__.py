"""This project's broker, served by a process with sockets and a log directory."""
