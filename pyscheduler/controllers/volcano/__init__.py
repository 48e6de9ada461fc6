"""Controllers of Volcano's kinds: statuses of PodGroups and Queues, and Jobs of batch.volcano.sh."""
