"""`impl` under test in this process: adapters that give its actors the interface that judges
use."""
