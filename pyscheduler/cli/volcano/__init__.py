"""Translation of the configuration of Volcano's scheduler."""
