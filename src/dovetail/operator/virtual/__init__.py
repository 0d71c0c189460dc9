"""Virtual EC2 and kubelets against a real API server, for demos and tests.

controllers ──(client.py, HTTP)──> account.py: simulated EC2 account
│ boots and terminates instances
v
API server <──(blocking_api.py)── worker_thread.py: simulated kubelets, EBS driver
└──────── watch events ─────> watch_cache.py
"""
