"""`impl`'s transactional client, coordinator and leaders, each an actor of the judge."""
