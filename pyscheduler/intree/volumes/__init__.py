"""What the plugins for volumes share: objects, matching, provisioning, limits, and what Reserve assumes."""
