"""CustomResourceDefinitions, generated from the constants of the decoders."""
