"""A Kubernetes API server in memory, on a virtual clock.

``server.ApiServer`` is its interface.

::

    request -> defaulting and admission -> validation -> storage -> watch
               admission/defaults          admission/     storage/   storage/watch
               admission/plugins           validation     store
       |
       +-- patch/   merge patch, JSON patch, strategic merge patch and server-side
                    apply compute the object that is then written as an update

It has: create, update, patch, apply, delete, deletecollection, get, list with
selectors and continue tokens, watch with bookmarks and resume, resource versions
with optimistic concurrency, generation, managed fields, field defaulting, CRD
defaults, finalizers, graceful deletion, garbage collection, the status, scale,
binding and eviction subresources, PodDisruptionBudgets and dry run.

It lacks: authentication and authorization, admission webhooks, CEL, quotas, several
versions of a kind, aggregated API servers and persistence. Only the kinds of
``ports.api_resources`` exist. Garbage collection and eviction counts are synchronous,
where Kubernetes' controllers run a moment later.

The contract tests (tests/contract/apiserver) run against this server and a real one.
"""
