"""IAM policy documents: permissions and trust of each role."""
