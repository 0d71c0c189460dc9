"""A cluster in memory and in virtual time; nothing here touches the real world."""
