"""From a configuration file to decided profiles: read, decode, discover plugins, expand, validate.

Everything wrong with a file is found in one go and told with its YAML path and line; nothing here starts anything.
"""
