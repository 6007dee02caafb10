"""The benchmark of TLS: reads under it beside what OpenSSL alone can seal."""
