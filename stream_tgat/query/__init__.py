"""The query service: read-only calls over HTTP and a page, and in each worker the endpoint that answers it.

A worker knows the nodes of its partitions and nobody else does. So `service` finds out by the consumer group who has a
node (`owners`), asks that worker (`workers`), which looks in its engine's thread between two cycles (`endpoint`,
`lookup`), and puts the answers together. What goes between the two is `messages`.
`catalog` and `watching` hold what the service has itself read from the topics, which `page` shows.
"""
