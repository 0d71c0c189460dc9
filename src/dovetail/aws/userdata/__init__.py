"""Building blocks of user data: bootstrap values, MIME and TOML. All pure."""
