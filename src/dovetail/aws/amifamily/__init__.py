"""AMI families: user data, published AMIs and block devices, one module per family."""
