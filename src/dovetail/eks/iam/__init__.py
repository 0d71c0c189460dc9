"""IAM documents: what each role may do, and who may take it on."""
