"""The simulated API server over HTTPS, for kubectl and client libraries.

::

    server (TLS, token) -> router -> read_handlers, write_handlers, watch_handler, pod_logs
                             |              |
                             |         encoding/  query options, bodies, content negotiation
                             |         schema/    fields and types of each kind
                             |         tables/    printer columns of `kubectl get`
                             |              |
                             |         simulator.apiserver
                             +-> discovery, openapi, access_reviews

It has what kubectl and client libraries use: discovery (aggregated too), OpenAPI v3,
JSON, YAML and protobuf bodies, tables, field validation, dry run, chunked lists,
watches and pod logs. It lacks exec, attach and port-forward, since no container runs.

Fields, printer columns and schemas of Karpenter's kinds are derived from the CRDs of
``codec.crds``. ``sandbox`` runs a simulated cluster in real time behind the server.
"""
