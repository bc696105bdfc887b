"""What is proved of brokers that give producer ids."""
