"""Where traces are judged, and jobs done: Spark, or processes of this machine."""
