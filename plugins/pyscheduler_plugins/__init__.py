"""Plugins beyond kube-scheduler's own, one class a file, loaded through entry points like anyone's."""
