"""The plugin registry, profiles and the rules for running each extension point."""
