"""Storage: objects, indexes, history, selectors, pagination and watches."""
