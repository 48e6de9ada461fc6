"""Parts shared by the volume plugins: objects, matching, provisioning, limits, the assume cache."""
