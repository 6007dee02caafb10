"""Simulation: what a fleet would find cached, and how quick it would be, played from a trace.

``trace`` is what is asked, ``reading`` and ``made`` are where it is from, ``engine`` and ``fleet``
say who answers it, ``playing`` plays it, ``figures`` are what came out.
"""
