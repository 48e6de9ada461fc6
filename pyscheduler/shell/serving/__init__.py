"""The scheduler's own server: who may ask, for which pages, over which certificates; and the pages themselves."""
