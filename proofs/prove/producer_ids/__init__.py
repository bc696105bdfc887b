"""What is proved of the brokers that give producer ids."""
