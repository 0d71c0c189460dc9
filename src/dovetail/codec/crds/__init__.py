"""CustomResourceDefinitions, made from the rules by which objects are read."""
