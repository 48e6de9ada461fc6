"""Pod groups as users declare them: a reader for each API, and the plugin PodGroups that joins the readers."""
