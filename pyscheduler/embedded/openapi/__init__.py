"""OpenAPI documents of the served kinds: v3 by API version, v2 for all, as JSON and as protobuf.

Schemas of built-in kinds are the published ones, with descriptions; those of custom resources come from their
definition. Of paths the documents contain what kubectl reads: the operations of one object, which tell whether PATCH
accepts `fieldValidation` and `dryRun`.
"""
